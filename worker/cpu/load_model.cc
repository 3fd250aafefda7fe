#include "worker/cpu/load_model.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "common/model_files/tokenizer_fingerprint.h"
#include "common/runtime/system_memory.h"
#include "common/status.h"
#include "kernels/gemm/self_check.h"
#include "worker/cpu/model.h"
#include "common/model_files/model_family.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/rotation.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"

namespace lockstep::worker {
namespace {

using kernels::InstructionSet;
using kernels::kKvBlockTokens;

// Raised whenever a kernel may give other bits than before for the same input.
constexpr uint64_t kKernelVersion = 2;
constexpr uint64_t kKernelConstants[] = {kKernelVersion, kernels::kKeyTile,
                                         kernels::kAttentionSplitKeys};

absl::Status CheckOptions(const CpuModelOptions& options) {
  if (options.block_size_tokens != kKvBlockTokens) {
    return InvalidArgument("block size is {} tokens, the CPU kernels take {}",
                           options.block_size_tokens, kKvBlockTokens);
  }
  if (options.num_kv_blocks < 2) {
    return InvalidArgument("{} KV blocks, at least 2 are needed", options.num_kv_blocks);
  }
  if (options.max_step_tokens < 2 || options.max_logits_rows == 0) {
    return InvalidArgument(
        "max_step_tokens is {}, at least 2 are needed; max_logits_rows is {}, at least 1",
        options.max_step_tokens, options.max_logits_rows);
  }
  return absl::OkStatus();
}

int NumThreads(const CpuModelOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

ForwardModelInfo MakeInfo(const ModelConfig& config, const CpuModelOptions& options,
                          InstructionSet instruction_set) {
  return {.model_id = config.name,
          .vocab_size = config.vocab_size,
          .max_context_tokens = config.max_context_tokens,
          .max_step_tokens = options.max_step_tokens,
          .max_logits_rows = options.max_logits_rows,
          .block_size_tokens = options.block_size_tokens,
          .num_blocks = options.num_kv_blocks,
          .weights_dtype = "bf16",
          .kv_dtype = "bf16",
          .device = fmt::format("cpu-{}", InstructionSetName(instruction_set)),
          .model_fingerprint = config.Fingerprint()};
}

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

struct LoadedWeights {
  ModelWeights weights;
  uint64_t fingerprint = 0;
};

absl::StatusOr<WeightSource> OpenWeights(const std::string& path, const ModelFamily& family,
                                         const ModelSpec& spec, const CpuModelOptions& options) {
  if (options.random_weights) return WeightSource::Random(path, family, spec, options.random_seed);
  return WeightSource::Open(path, family);
}

absl::StatusOr<LoadedWeights> LoadWeights(const WeightSource& source, const ModelSpec& spec,
                                          kernels::ThreadPool& threads,
                                          const LoadProgress& progress) {
  LOCKSTEP_ASSIGN_OR_RETURN(WeightPlan plan, PlanWeights(spec, source));
  LOCKSTEP_RETURN_IF_ERROR(RunLoadTasks(plan.tasks, threads, progress));
  return LoadedWeights{.weights = std::move(plan.weights), .fingerprint = source.Fingerprint()};
}

absl::StatusOr<InstructionSet> ChooseInstructionSet(const CpuModelOptions& options) {
  if (!options.instruction_set) return kernels::BestInstructionSet();
  if (!std::ranges::count(kernels::AvailableInstructionSets(), *options.instruction_set)) {
    return InvalidArgument("this processor or build does not have the instruction set {}",
                           InstructionSetName(*options.instruction_set));
  }
  return *options.instruction_set;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardModel>> LoadCpuModel(const std::string& path,
                                                           const CpuModelOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  const auto report = [&options](std::string_view stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(path));
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelSpec spec, MakeModelSpec(config));
  LOCKSTEP_ASSIGN_OR_RETURN(const InstructionSet instruction_set, ChooseInstructionSet(options));
  ForwardModelInfo info = MakeInfo(config, options, instruction_set);
  LOCKSTEP_ASSIGN_OR_RETURN(info.tokenizer_fingerprint, LoadTokenizerFingerprint(path));
  const KvPoolShape kv_shape = {.num_layers = spec.num_layers,
                                .num_blocks = options.num_kv_blocks,
                                .num_kv_heads = spec.num_kv_heads,
                                .head_dim = spec.head_dim};
  if (const std::optional<uint64_t> available = AvailableMemoryBytes()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckKvCacheFits(kv_shape, *available));
  }
  auto threads = std::make_unique<kernels::ThreadPool>(NumThreads(options));

  LOCKSTEP_ASSIGN_OR_RETURN(const WeightSource source,
                            OpenWeights(path, *config.family, spec, options));
  LOCKSTEP_ASSIGN_OR_RETURN(LoadedWeights loaded,
                            LoadWeights(source, spec, *threads, [&report](double fraction) {
                              report("weights", fraction);
                            }));
  info.weights_fingerprint = loaded.fingerprint;
  LOCKSTEP_ASSIGN_OR_RETURN(CpuKvPool kv_pool, CpuKvPool::Create(kv_shape));
  LOCKSTEP_ASSIGN_OR_RETURN(Workspace workspace, Workspace::Create(spec, options.max_step_tokens,
                                                                   options.max_logits_rows));

  report("self-check", 0.0);
  if (options.check_reduction_contract) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckGemmOfModel({.threads = threads.get(), .instruction_set = instruction_set},
                         loaded.weights));
  }
  kernels::RopeTable rope = MakeRotation(spec);
  const uint64_t rope_hash = HashOf(rope);
  auto model = std::make_unique<CpuModel>(CpuModelParts{.spec = spec,
                                                        .weights = std::move(loaded.weights),
                                                        .rope = std::move(rope),
                                                        .kv_pool = std::move(kv_pool),
                                                        .workspace = std::move(workspace),
                                                        .threads = std::move(threads),
                                                        .instruction_set = instruction_set,
                                                        .info = std::move(info)});
  if (options.check_reduction_contract) LOCKSTEP_RETURN_IF_ERROR(CheckProbeSchedules(*model));
  model->set_numerics_id(NumericsId(model->info(), kKernelConstants, rope_hash, ProbeHash(*model)));
  report("self-check", 1.0);
  return model;
}

}  // namespace lockstep::worker
