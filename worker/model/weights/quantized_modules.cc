#include "worker/model/weights/quantized_modules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "kernels/formats/checkpoint/decode_weight.h"
#include "kernels/formats/tensors/tensor_checks.h"

namespace lockstep::worker {
namespace {

constexpr std::string_view kActivationSuffixes[] = {"input_global_scale", "input_scale",
                                                    "input_zero_point"};
constexpr std::string_view kAttentionSuffixes[] = {"k_scale",      "k_zero_point",      "kv_scale",
                                                   "output_scale", "prob_output_scale", "q_scale",
                                                   "v_scale",      "v_zero_point"};

bool IsOneOf(std::span<const std::string_view> list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::string ExtentOf(const WeightScheme& scheme) {
  switch (scheme.extent) {
    case ScaleExtent::kTensor:
      return "one scale";
    case ScaleExtent::kChannel:
      return "a scale a row";
    case ScaleExtent::kGroup:
      return scheme.group_size == 0 ? "a scale a row"
                                    : fmt::format("groups of {}", scheme.group_size);
    case ScaleExtent::kBlock:
      return fmt::format("blocks of {} x {}", scheme.block_rows, scheme.block_columns);
  }
  return "";
}

std::string CodesOf(const WeightScheme& scheme) {
  switch (scheme.format) {
    case WeightFormat::kFloatQuantized:
    case WeightFormat::kFp8Block:
      return "fp8";
    case WeightFormat::kNvfp4:
    case WeightFormat::kNvfp4ModelOpt:
      return "nvfp4";
    case WeightFormat::kMxfp4:
    case WeightFormat::kMxfp4Packed:
      return "mxfp4";
    default:
      return fmt::format("int{}", scheme.bits);
  }
}

bool IsPlain(const std::vector<StoredPart>& parts) {
  if (parts.empty()) return true;
  const SafetensorsDtype dtype = parts.front().tensor->dtype;
  const bool is_float = dtype == SafetensorsDtype::kF32 || dtype == SafetensorsDtype::kF16 ||
                        dtype == SafetensorsDtype::kBF16;
  return parts.size() == 1 && parts.front().suffix == "weight" && is_float;
}

// Goes through the modules one by one.
class Finder {
 public:
  Finder(const SafetensorsCheckpoint& checkpoint, const QuantizationConfig& config)
      : checkpoint_(checkpoint), config_(config) {}

  absl::Status Run() {
    std::map<std::string, std::vector<StoredPart>, std::less<>> tensors_of;
    for (const std::string_view name : checkpoint_.TensorNames()) {
      const size_t dot = name.rfind('.');
      if (dot == std::string_view::npos) continue;
      const std::string suffix(name.substr(dot + 1));
      if (IsOneOf(kAttentionSuffixes, suffix)) {
        found_.hidden.emplace(name);
        ++num_attention_scales_;
        continue;
      }
      tensors_of[std::string(name.substr(0, dot))].push_back({suffix, checkpoint_.Find(name)});
    }
    for (const auto& [module, tensors] : tensors_of) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<WeightScheme> scheme, config_.SchemeOf(module));
      if (scheme.has_value()) LOCKSTEP_RETURN_IF_ERROR(AddModule(module, *scheme, tensors));
    }
    return absl::OkStatus();
  }

  QuantizedModules Take() && {
    for (const auto& [text, count] : num_modules_) {
      found_.summary += fmt::format("{}{} ({}): {} module{}", found_.summary.empty() ? "" : "; ",
                                    text, config_.method(), count, count == 1 ? "" : "s");
    }
    const bool has_attention = num_attention_scales_ > 0 || config_.kv_cache().has_value();
    if (num_activation_scales_ > 0 || has_attention) {
      found_.warning = fmt::format(
          "activations stay in bf16, and the KV cache follows --kv-dtype: not used are {} scales "
          "of activations, {} of attention{}",
          num_activation_scales_, num_attention_scales_,
          config_.kv_cache().has_value() ? ", and the scheme of the KV cache" : "");
    }
    return std::move(found_);
  }

 private:
  absl::Status AddModule(const std::string& module, const WeightScheme& scheme,
                         const std::vector<StoredPart>& tensors) {
    const auto suffixes = kernels::TensorSuffixes(scheme.format);
    std::vector<StoredPart> parts;
    for (const StoredPart& tensor : tensors) {
      const bool is_of_activations = IsOneOf(kActivationSuffixes, tensor.suffix);
      if (!is_of_activations && IsOneOf(suffixes, tensor.suffix)) parts.push_back(tensor);
    }
    const auto weight = std::ranges::find(tensors, "weight", &StoredPart::suffix);
    if (weight != tensors.end() && !IsOneOf(suffixes, "weight")) {
      if (parts.empty()) return absl::OkStatus();  // plain
      return InvalidArgument("tensor {} is there as well as {}, which is {}", weight->tensor->name,
                             parts.front().tensor->name, WeightFormatName(scheme.format));
    }
    if (IsPlain(parts)) return absl::OkStatus();
    for (const StoredPart& part : parts) found_.hidden.insert(part.tensor->name);
    HideOthers(tensors);
    auto quantized = std::make_shared<const QuantizedTensor>(module, scheme, parts, decoded_);
    LOCKSTEP_ASSIGN_OR_RETURN(const kernels::MatrixShape shape, quantized->Shape());
    found_.modules.push_back(
        {.weight_name = module + ".weight",
         .shape = {static_cast<uint64_t>(shape.rows), static_cast<uint64_t>(shape.columns)},
         .weight = std::move(quantized)});
    ++num_modules_[fmt::format("{}, {}", CodesOf(scheme), ExtentOf(scheme))];
    return absl::OkStatus();
  }

  void HideOthers(const std::vector<StoredPart>& tensors) {
    for (const StoredPart& tensor : tensors) {
      if (IsOneOf(kActivationSuffixes, tensor.suffix)) {
        found_.hidden.insert(tensor.tensor->name);
        ++num_activation_scales_;
      } else if (tensor.suffix == "bias" && kernels::AllBytesAre(std::byte{0}, *tensor.tensor)) {
        found_.zero_biases.insert(tensor.tensor->name);
      }
    }
  }

  const SafetensorsCheckpoint& checkpoint_;
  const QuantizationConfig& config_;
  const std::shared_ptr<DecodedMatrices> decoded_ = std::make_shared<DecodedMatrices>();
  QuantizedModules found_;
  std::map<std::string, int> num_modules_;  // of each scheme, described
  int num_activation_scales_ = 0, num_attention_scales_ = 0;
};

}  // namespace

absl::StatusOr<QuantizedModules> FindQuantizedModules(const SafetensorsCheckpoint& checkpoint,
                                                      const QuantizationConfig& config,
                                                      const ModelFamily& family) {
  Finder finder(checkpoint, config);
  LOCKSTEP_RETURN_IF_ERROR(finder.Run());
  QuantizedModules found = std::move(finder).Take();
  if (!found.modules.empty() && family.hugging_face.transposed_matrices) {
    return InvalidArgument("quantised weights of {} are not supported", family.name);
  }
  return found;
}

}  // namespace lockstep::worker
