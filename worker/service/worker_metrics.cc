#include "worker/service/worker_metrics.h"

#include <prometheus/gauge.h>

#include <string>

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

double Seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry, const ForwardModelInfo& info)
    : invalid_requests_(prometheus::BuildCounter()
                            .Name("lockstep_worker_invalid_requests_total")
                            .Help("Steps and claims that were refused.")
                            .Register(registry)
                            .Add({})),
      prefill_steps_(StepsFamily(registry).Add({{"kind", "prefill"}})),
      decode_steps_(StepsFamily(registry).Add({{"kind", "decode"}})),
      mixed_steps_(StepsFamily(registry).Add({{"kind", "mixed"}})),
      compute_seconds_(StepSeconds(registry, "gpu")),
      host_seconds_(StepSeconds(registry, "host")),
      idle_seconds_(StepSeconds(registry, "idle")) {
  prometheus::BuildGauge()
      .Name("lockstep_worker_kv_blocks")
      .Help("Blocks of the KV pool.")
      .Register(registry)
      .Add({})
      .Set(info.num_blocks);
  prometheus::BuildGauge()
      .Name("lockstep_worker_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(registry)
      .Add({{"version", std::string(Version())},
            {"commit", std::string(GitCommit())},
            {"model", info.model_id},
            {"device", info.device},
            {"weights_dtype", info.weights_dtype},
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
  const v1::StepTimings& timings = result.timings();
  compute_seconds_.Observe(Seconds(timings.compute_ns()));
  host_seconds_.Observe(Seconds(timings.total_ns() - timings.queue_ns() - timings.compute_ns()));
  idle_seconds_.Observe(Seconds(timings.idle_ns()));
}

}  // namespace lockstep::worker
