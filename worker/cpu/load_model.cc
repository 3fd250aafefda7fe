#include "worker/cpu/load_model.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/runtime/system_memory.h"
#include "common/status.h"
#include "kernels/gemm/self_check.h"
#include "worker/cpu/model.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/rotation.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"

namespace lockstep::worker {
namespace {

using kernels::InstructionSet;

// Raised whenever a kernel may give other bits than before for the same input.
constexpr uint64_t kKernelVersion = 2;
constexpr uint64_t kKernelConstants[] = {kKernelVersion, kernels::kKeyTile,
                                         kernels::kAttentionSplitKeys};

absl::Status CheckGemmOfModel(const kernels::Stream& stream, const ModelWeights& weights) {
  std::set<int64_t> input_sizes;
  for (const LayerPart part : EnumValues<LayerPart>()) {
    const int64_t num_inputs = weights.layers.front()[part].matrix.k;
    if (num_inputs > 0) input_sizes.insert(num_inputs);
  }
  for (const int64_t k : input_sizes) {
    LOCKSTEP_RETURN_IF_ERROR(kernels::CheckGemmSchedule(stream, k));
  }
  return absl::OkStatus();
}

absl::StatusOr<InstructionSet> ChooseInstructionSet(const ModelOptions& options) {
  if (!options.instruction_set) return kernels::BestInstructionSet();
  if (!std::ranges::count(kernels::AvailableInstructionSets(), *options.instruction_set)) {
    return InvalidArgument("this processor or build does not have the instruction set {}",
                           InstructionSetName(*options.instruction_set));
  }
  return *options.instruction_set;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardModel>> LoadCpuModel(const std::string& path,
                                                           const ModelOptions& options) {
  if (options.num_kv_blocks < 2) {
    return InvalidArgument("{} KV blocks, at least 2 are needed", options.num_kv_blocks);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const InstructionSet instruction_set, ChooseInstructionSet(options));
  LOCKSTEP_ASSIGN_OR_RETURN(
      ModelDescription description,
      DescribeModel(path, options, fmt::format("cpu-{}", InstructionSetName(instruction_set))));
  const ModelSpec& spec = description.spec;
  const KvPoolShape kv_shape = {.num_layers = spec.num_layers,
                                .num_blocks = options.num_kv_blocks,
                                .num_kv_heads = spec.num_kv_heads,
                                .head_dim = spec.head_dim};
  if (const std::optional<uint64_t> available = AvailableMemoryBytes()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckKvCacheFits(kv_shape, *available));
  }
  auto threads = std::make_unique<kernels::ThreadPool>(options.NumThreads());
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightSource source, OpenWeights(path, description, options));
  LOCKSTEP_ASSIGN_OR_RETURN(WeightPlan plan, PlanWeights(spec, source));
  LOCKSTEP_RETURN_IF_ERROR(RunLoadTasks(
      plan.tasks, *threads, [&options](double fraction) { options.Report("weights", fraction); }));
  description.info.weights_fingerprint = source.Fingerprint();
  LOCKSTEP_ASSIGN_OR_RETURN(CpuKvPool kv_pool, CpuKvPool::Create(kv_shape));
  LOCKSTEP_ASSIGN_OR_RETURN(Workspace workspace, Workspace::Create(spec, options.max_step_tokens,
                                                                   options.max_logits_rows));

  options.Report("self-check", 0.0);
  if (options.check_reduction_contract) {
    LOCKSTEP_RETURN_IF_ERROR(CheckGemmOfModel(
        {.threads = threads.get(), .instruction_set = instruction_set}, plan.weights));
  }
  kernels::RopeTable rope = MakeRotation(spec);
  const uint64_t rope_hash = HashOf(rope);
  auto model = std::make_unique<CpuModel>(CpuModelParts{.spec = spec,
                                                        .weights = std::move(plan.weights),
                                                        .rope = std::move(rope),
                                                        .kv_pool = std::move(kv_pool),
                                                        .workspace = std::move(workspace),
                                                        .threads = std::move(threads),
                                                        .instruction_set = instruction_set,
                                                        .info = std::move(description.info)});
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t numerics_id,
                            CheckNumerics(*model, options, kKernelConstants, rope_hash));
  model->set_numerics_id(numerics_id);
  options.Report("self-check", 1.0);
  return model;
}

}  // namespace lockstep::worker
