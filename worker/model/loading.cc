#include "worker/model/loading.h"

#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "common/model_files/gguf.h"
#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/tokenizer/tokenizer_fingerprint.h"
#include "common/status.h"
#include "kernels/kv_cache/paged_kv.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/plan/tensor_rank.h"

namespace lockstep::worker {
namespace {

absl::Status CheckOptions(const ModelOptions& options) {
  if (options.max_slots == 0 || options.max_step_tokens < 2 || options.max_logits_rows == 0) {
    return InvalidArgument(
        "max_slots is {}, max_step_tokens is {}, max_logits_rows is {}: expected at least 1, 2 and "
        "1",
        options.max_slots, options.max_step_tokens, options.max_logits_rows);
  }
  return absl::OkStatus();
}

std::vector<KvGroupInfo> DescribeKvGroups(const ModelPlan& plan, const ModelOptions& options) {
  const KvPoolBounds bounds = {.num_kv_blocks = options.num_kv_blocks,
                               .max_slots = options.max_slots,
                               .max_step_tokens = options.max_step_tokens};
  std::vector<KvGroupInfo> infos;
  infos.reserve(plan.kv_groups.size());
  for (const KvGroupPlan& group : plan.kv_groups) {
    infos.push_back({.num_blocks = static_cast<uint32_t>(NumPoolBlocks(group, bounds)),
                     .window_tokens = static_cast<uint32_t>(group.window_tokens),
                     .dtype = std::string(KvTypeName(group.type))});
  }
  return infos;
}

// What random matrices have for codes: those of the options, or of the configuration.
absl::StatusOr<RandomCodesOfModule> FindCodesOfModules(const std::string& path,
                                                       const ModelFamily& family,
                                                       const ModelOptions& options) {
  if (const std::optional<RandomCodes> codes = options.random_codes) {
    const std::string_view lm_head = family.hugging_face.lm_head;
    return [codes, lm_head](std::string_view module) {
      return codes->has_lm_head || module != lm_head ? codes : std::nullopt;
    };
  }
  if (IsGgufPath(path)) return nullptr;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<QuantizationConfig> config,
                            LoadQuantizationConfig(path));
  if (!config.has_value()) return nullptr;
  return [config](std::string_view module) -> std::optional<RandomCodes> {
    const absl::StatusOr<std::optional<WeightScheme>> scheme = config->SchemeOf(module);
    if (!scheme.ok()) spdlog::warn("{}: {}", module, Message(scheme.status()));
    if (!scheme.ok() || !scheme->has_value()) return std::nullopt;
    return CodesOfScheme(**scheme);
  };
}

absl::Status CheckActivationForm(const WeightSource& source, const ModelOptions& options) {
  if (options.activation_form != ActivationForm::kFp8) return absl::OkStatus();
  if (options.weight_form == WeightForm::kBFloat16) {
    return InvalidArgument("{}: --activations fp8 needs weights in FP8, but --weights is bf16",
                           source.path());
  }
  if (std::ranges::any_of(source.tensors(), HasFp8Codes)) return absl::OkStatus();
  std::string found = source.summary();
  if (found.empty()) {
    std::set<std::string> types;
    for (const SourceTensor& tensor : source.tensors()) types.insert(tensor.type_name);
    found = absl::StrJoin(types, ", ");
  }
  return FailedPrecondition(
      "{}: --activations fp8 needs weights in FP8 (E4M3, with scales of 128 x 128 weights, of rows "
      "or of tensors), but the model has {}",
      source.path(), found);
}

}  // namespace

std::optional<WeightForm> ParseWeightForm(std::string_view name) {
  if (name == "auto") return WeightForm::kAuto;
  if (name == "packed") return WeightForm::kPacked;
  if (name == "bf16") return WeightForm::kBFloat16;
  return std::nullopt;
}

std::optional<kernels::KvType> ParseKvType(std::string_view name) {
  if (name == "bf16" || name == "auto") return kernels::KvType::kBFloat16;
  if (name == "fp8" || name == "fp8_e4m3") return kernels::KvType::kFp8;
  return std::nullopt;
}

std::optional<ActivationForm> ParseActivationForm(std::string_view name) {
  if (name == "bf16") return ActivationForm::kBFloat16;
  if (name == "fp8") return ActivationForm::kFp8;
  return std::nullopt;
}

int ModelOptions::NumThreads() const {
  if (num_threads > 0) return num_threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

absl::StatusOr<ModelDescription> DescribeModel(const std::string& path, const ModelOptions& options,
                                               std::string device) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOptions(options));
  ModelDescription model;
  LOCKSTEP_ASSIGN_OR_RETURN(model.config, LoadModelConfig(path));
  for (const std::string& warning : model.config.warnings) spdlog::warn("{}", warning);
  LOCKSTEP_ASSIGN_OR_RETURN(model.plan, MakeModelPlan(model.config, options.kv_type));
  LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckDegree(model.plan, options.tensor_parallel), path));
  model.info = {.model_id = model.config.name,
                .vocab_size = model.config.vocab_size,
                .max_context_tokens = model.config.max_context_tokens,
                .max_step_tokens = options.max_step_tokens,
                .max_logits_rows = options.max_logits_rows,
                .block_size_tokens = kernels::kKvBlockTokens,
                .kv_groups = DescribeKvGroups(model.plan, options),
                .tensor_parallel = options.tensor_parallel,
                .weights_dtype = "bf16",
                .device = std::move(device),
                .model_fingerprint = model.config.Fingerprint()};
  LOCKSTEP_ASSIGN_OR_RETURN(model.info.tokenizer_fingerprint, LoadTokenizerFingerprint(path));
  return model;
}

absl::StatusOr<WeightSource> OpenWeights(const std::string& path, const ModelDescription& model,
                                         const ModelOptions& options) {
  const ModelFamily& family = *model.config.family;
  if (options.random_weights) {
    LOCKSTEP_ASSIGN_OR_RETURN(const RandomCodesOfModule codes_of,
                              FindCodesOfModules(path, family, options));
    WeightSource source =
        WeightSource::Random(path, family, model.plan, options.random_seed, codes_of);
    LOCKSTEP_RETURN_IF_ERROR(CheckActivationForm(source, options));
    return source;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(WeightSource source, WeightSource::Open(path, family));
  if (!source.summary().empty()) spdlog::info("weights: {}", source.summary());
  if (!source.warning().empty()) spdlog::warn("{}: {}", path, source.warning());
  LOCKSTEP_RETURN_IF_ERROR(CheckActivationForm(source, options));
  return source;
}

absl::StatusOr<uint64_t> CheckNumerics(ForwardModel& model, const ModelPlan& plan,
                                       const ModelOptions& options,
                                       std::span<const uint64_t> kernel_constants,
                                       uint64_t rope_hash) {
  const int64_t window_tokens = plan.ShortestWindow();
  if (options.check_reduction_contract) {
    LOCKSTEP_RETURN_IF_ERROR(CheckProbeSchedules(model, window_tokens));
  }
  return NumericsId(model.info(), kernel_constants, rope_hash, ProbeHash(model));
}

}  // namespace lockstep::worker
