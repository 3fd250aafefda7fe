#include "worker/service/worker_metrics.h"

#include <prometheus/gauge.h>

#include <string>
#include <vector>

#include "common/runtime/metrics.h"
#include "common/version.h"

namespace lockstep::worker {
namespace {

prometheus::Family<prometheus::Counter>& StepsFamily(prometheus::Registry& registry) {
  return prometheus::BuildCounter()
      .Name("lockstep_worker_steps_total")
      .Help("Steps executed, by what their rows did.")
      .Register(registry);
}

prometheus::Histogram& StepSeconds(prometheus::Registry& registry, const std::string& part) {
  return prometheus::BuildHistogram()
      .Name("lockstep_worker_step_seconds")
      .Help(
          "Time of a step on the device, on the host around it, and of the device idle before it.")
      .Register(registry)
      .Add({{"part", part}}, BucketVector(kStepBucketsSeconds));
}

prometheus::Counter& Counter(prometheus::Registry& registry, const std::string& name,
                             const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

void ShowMemory(prometheus::Registry& registry, const MemoryUse& memory) {
  auto& family = prometheus::BuildGauge()
                     .Name("lockstep_worker_memory_bytes")
                     .Help("Memory that the model takes on its device, by use.")
                     .Register(registry);
  const auto show = [&family](const std::string& kind, uint64_t bytes) {
    family.Add({{"kind", kind}}).Set(static_cast<double>(bytes));
  };
  show("weights", memory.weights_bytes);
  show("kv_cache", memory.kv_cache_bytes);
  show("workspace", memory.workspace_bytes);
}

// Most models have one group. The series of further groups exist only if there are any.
void ShowKvBlocks(prometheus::Registry& registry, const std::vector<KvGroupInfo>& groups) {
  prometheus::BuildGauge()
      .Name("lockstep_worker_kv_blocks")
      .Help("Blocks of the KV pool.")
      .Register(registry)
      .Add({})
      .Set(groups.front().num_blocks);
  for (size_t group = 1; group < groups.size(); ++group) {
    prometheus::BuildGauge()
        .Name("lockstep_worker_kv_group_blocks")
        .Help("Blocks of the pool of a further KV group.")
        .Register(registry)
        .Add({{"group", std::to_string(group)}})
        .Set(groups[group].num_blocks);
  }
}

double Seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry, const ForwardModelInfo& info)
    : invalid_requests_(Counter(registry, "lockstep_worker_invalid_requests_total",
                                "Steps and claims that were refused.")),
      prefill_steps_(StepsFamily(registry).Add({{"kind", "prefill"}})),
      decode_steps_(StepsFamily(registry).Add({{"kind", "decode"}})),
      mixed_steps_(StepsFamily(registry).Add({{"kind", "mixed"}})),
      graph_replays_(Counter(registry, "lockstep_worker_cuda_graph_replays_total",
                             "Decode iterations that a CUDA graph ran.")),
      graph_misses_(Counter(registry, "lockstep_worker_cuda_graph_misses_total",
                            "Decode iterations whose CUDA graph had to be captured first.")),
      constraint_masks_(Counter(registry, "lockstep_worker_constraint_masks_total",
                                "Tokens that were sampled under a constraint.")),
      constraint_mask_seconds_(Counter(registry, "lockstep_worker_constraint_mask_seconds_total",
                                       "Time spent waiting for masks of constraints.")),
      constraint_restarts_(Counter(registry, "lockstep_worker_constraint_engine_restarts_total",
                                   "Constraint engines that ended and were replaced.")),
      compute_seconds_(StepSeconds(registry, "gpu")),
      host_seconds_(StepSeconds(registry, "host")),
      idle_seconds_(StepSeconds(registry, "idle")) {
  ShowKvBlocks(registry, info.kv_groups);
  ShowMemory(registry, info.memory);
  prometheus::BuildGauge()
      .Name("lockstep_worker_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(registry)
      .Add({{"version", std::string(Version())},
            {"commit", std::string(GitCommit())},
            {"model", info.model_id},
            {"device", info.device},
            {"weights_dtype", info.weights_dtype},
            {"kv_dtype", info.kv_groups.front().dtype},
            {"tensor_parallel", std::to_string(info.tensor_parallel)}})
      .Set(1);
}

void WorkerMetrics::RecordStep(const v1::StepResult& result, const StepStats& stats) {
  if (stats.refused) {
    invalid_requests_.Increment();
    return;
  }
  if (stats.num_prefill_rows > 0 && stats.num_decode_rows > 0) {
    mixed_steps_.Increment();
  } else if (stats.num_prefill_rows > 0) {
    prefill_steps_.Increment();
  } else if (stats.num_decode_rows > 0) {
    decode_steps_.Increment();
  } else {
    return;  // it only moved slots
  }
  graph_replays_.Increment(stats.num_graph_replays);
  graph_misses_.Increment(stats.num_graph_misses);
  constraint_masks_.Increment(stats.num_masks);
  constraint_mask_seconds_.Increment(Seconds(stats.mask_ns));
  constraint_restarts_.Increment(stats.num_engine_restarts);
  const v1::StepTimings& timings = result.timings();
  compute_seconds_.Observe(Seconds(timings.compute_ns()));
  host_seconds_.Observe(Seconds(timings.total_ns() - timings.queue_ns() - timings.compute_ns()));
  idle_seconds_.Observe(Seconds(timings.idle_ns()));
}

}  // namespace lockstep::worker
