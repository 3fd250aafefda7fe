#include "worker/cpu/load_model.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "common/runtime/system_memory.h"
#include "common/status.h"
#include "kernels/formats/panels/panel_gemm.h"
#include "kernels/formats/panels/panel_weights.h"
#include "kernels/gemm/self_check.h"
#include "worker/cpu/model.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/rotation.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/pack_weights.h"

namespace lockstep::worker {
namespace {

using kernels::InstructionSet;

// Raise this whenever a kernel may give other bits than before for the same input.
constexpr uint64_t kKernelVersion = 2;
constexpr uint64_t kKernelConstants[] = {kKernelVersion, kernels::kKeyTile,
                                         kernels::kAttentionSplitKeys};

absl::Status CheckGemmOfModel(const kernels::Stream& stream, const ModelPlan& plan) {
  std::set<int64_t> input_sizes;
  for (const LayerKind& kind : plan.kinds) {
    for (const LayerPart name : EnumValues<LayerPart>()) {
      const Part& part = kind.parts[name];
      if (part.exists() && part.kind == PartKind::kLinear) input_sizes.insert(part.num_inputs);
    }
  }
  for (const int64_t k : input_sizes) {
    LOCKSTEP_RETURN_IF_ERROR(kernels::CheckGemmSchedule(stream, k));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const std::string& path, const ModelOptions& options) {
  if (options.num_kv_blocks < 2) {
    return InvalidArgument("{} KV blocks, at least 2 are needed", options.num_kv_blocks);
  }
  if (options.activation_form == ActivationForm::kFp8) {
    return FailedPrecondition(
        "{}: --activations fp8 needs a GPU, but this worker computes on the CPU, with activations "
        "in bf16",
        path);
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

// Weights in bf16 that a processor's caches may hold. With more weights, decoding takes longer than
// reading them, at least for several rows.
constexpr uint64_t kMaxCachedWeights = uint64_t{256} << 20;

bool PacksWeights(const WeightSource& source, const ModelOptions& options,
                  InstructionSet instruction_set) {
  if (options.weight_form != WeightForm::kAuto) return options.weight_form == WeightForm::kPacked;
  return NumCodes(source) > kMaxCachedWeights &&
         kernels::DecodesInRegisters({.instruction_set = instruction_set});
}

struct LoadContext {
  const ModelPlan& plan;
  std::span<const KvGroupInfo> kv_groups;
  const WeightSource& source;
  const ModelOptions& options;
  InstructionSet instruction_set;
  kernels::ThreadPool& loaders;  // they read the weights
  const ModelWeights* first;     // of the first rank; null: it is loaded now
};

absl::StatusOr<CpuRank> LoadRank(const TensorRank& rank, const LoadContext& context) {
  const ModelPlan& plan = context.plan;
  const ModelOptions& options = context.options;
  ModelPlan share = ShareOf(plan, rank);
  const auto degree = static_cast<double>(rank.degree);
  const auto report = [&](double fraction) {
    options.Report("weights", (static_cast<double>(rank.rank) + fraction) / degree);
  };
  const WeightLoader loader = {
      .storage = {.packs = PacksWeights(context.source, options, context.instruction_set),
                  .rank = rank,
                  .embeddings_of = context.first},
      .make_packed =
          options.make_packed_weights ? options.make_packed_weights : kernels::PanelWeights::Create,
      .load = [&context](const std::vector<LoadTask>& tasks, const LoadProgress& progress) {
        return RunLoadTasks(tasks, context.loaders, progress);
      }};
  LOCKSTEP_ASSIGN_OR_RETURN(ModelWeights weights, LoadModelWeights(plan, context.source, loader,
                                                                   context.loaders, report));
  LOCKSTEP_ASSIGN_OR_RETURN(CpuKvPool kv_pool,
                            CpuKvPool::Create(share.kv_groups, context.kv_groups));
  LOCKSTEP_ASSIGN_OR_RETURN(
      Workspace workspace,
      Workspace::Create(plan, rank, options.max_step_tokens, options.max_logits_rows));
  const int num_threads = std::max(options.NumThreads() / static_cast<int>(rank.degree), 1);
  return CpuRank{.rank = rank,
                 .share = std::move(share),
                 .weights = std::move(weights),
                 .kv_pool = std::move(kv_pool),
                 .workspace = std::move(workspace),
                 .threads = std::make_unique<kernels::ThreadPool>(num_threads)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardModel>> LoadCpuModel(const std::string& path,
                                                           const ModelOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(path, options));
  LOCKSTEP_ASSIGN_OR_RETURN(const InstructionSet instruction_set, ChooseInstructionSet(options));
  LOCKSTEP_ASSIGN_OR_RETURN(
      ModelDescription description,
      DescribeModel(path, options, fmt::format("cpu-{}", InstructionSetName(instruction_set))));
  const ModelPlan& plan = description.plan;
  if (const std::optional<uint64_t> available = AvailableMemoryBytes()) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckKvCacheFits(plan.kv_groups, description.info.kv_groups, *available));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const WeightSource source, OpenWeights(path, description, options));
  CpuModelParts parts = {.plan = plan,
                         .ropes = MakeRotations(plan),
                         .instruction_set = instruction_set,
                         .info = std::move(description.info)};
  {
    kernels::ThreadPool loaders(options.NumThreads());
    const int64_t degree = options.tensor_parallel;
    for (int64_t rank = 0; rank < degree; ++rank) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          CpuRank loaded, LoadRank({.degree = degree, .rank = rank},
                                   {.plan = plan,
                                    .kv_groups = parts.info.kv_groups,
                                    .source = source,
                                    .options = options,
                                    .instruction_set = instruction_set,
                                    .loaders = loaders,
                                    .first = rank == 0 ? nullptr : &parts.ranks.front().weights}));
      MemoryUse& memory = parts.info.memory;
      memory.weights_bytes += loaded.weights.num_bytes();
      memory.kv_cache_bytes += loaded.kv_pool.bytes().size();
      memory.workspace_bytes += loaded.workspace.storage.used_bytes();
      parts.ranks.push_back(std::move(loaded));
    }
  }
  parts.info.weights_fingerprint = source.Fingerprint();
  parts.info.weights_dtype = StorageName(parts.ranks.front().weights);

  options.Report("self-check", 0.0);
  if (options.check_reduction_contract) {
    // Its inputs are the same on every rank.
    LOCKSTEP_RETURN_IF_ERROR(CheckGemmOfModel(
        {.threads = parts.ranks.front().threads.get(), .instruction_set = instruction_set}, plan));
  }
  const uint64_t rope_hash = HashOf(parts.ropes);
  auto model = std::make_unique<CpuModel>(std::move(parts));
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t numerics_id,
                            CheckNumerics(*model, plan, options, kKernelConstants, rope_hash));
  model->set_numerics_id(numerics_id);
  options.Report("self-check", 1.0);
  return model;
}

}  // namespace lockstep::worker
