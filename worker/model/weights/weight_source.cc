#include "worker/model/weights/weight_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/hash.h"
#include "common/model_files/model_config.h"
#include "common/model_files/quantization/quantization_config.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "kernels/formats/gguf_codes/gguf_codes.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/finite.h"
#include "worker/model/weights/quantized_modules.h"

namespace lockstep::worker {
namespace {

std::vector<SourceTensor> GgufTensors(const GgufFile& file) {
  std::vector<SourceTensor> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({.name = std::string(tensor.name),
                       .shape = tensor.shape,
                       .type_name = GgmlTypeName(tensor.type),
                       .type = tensor.type,
                       .supported = kernels::CanDequantize(tensor.type),
                       .data = tensor.data});
  }
  return tensors;
}

SourceTensor FromSafetensors(const SafetensorsTensor& tensor) {
  SourceTensor result{.name = tensor.name,
                      .shape = tensor.shape,
                      .type_name = std::string(SafetensorsDtypeName(tensor.dtype)),
                      .supported = true,
                      .data = tensor.data};
  switch (tensor.dtype) {
    case SafetensorsDtype::kF32:
      result.type = GgmlType::kF32;
      break;
    case SafetensorsDtype::kF16:
      result.type = GgmlType::kF16;
      break;
    case SafetensorsDtype::kBF16:
      result.type = GgmlType::kBF16;
      break;
    default:
      result.supported = false;
  }
  return result;
}

// The bytes of `num_elements` elements in whole rows of `row_elements`, from row `first_row` on.
std::span<const std::byte> RowBytes(const SourceTensor& tensor, int64_t first_row,
                                    int64_t row_elements, size_t num_elements) {
  size_t tensor_elements = 1;
  for (const uint64_t size : tensor.shape) tensor_elements *= size;
  const size_t num_rows = tensor_elements / static_cast<size_t>(row_elements);
  const size_t row_bytes = tensor.data.size() / num_rows;
  const size_t wanted_rows = num_elements / static_cast<size_t>(row_elements);
  return tensor.data.subspan(static_cast<size_t>(first_row) * row_bytes, wanted_rows * row_bytes);
}

float AsFloat(float value) { return value; }
float AsFloat(kernels::BFloat16 value) { return kernels::ToFloat(value); }

// `values` are the tensor's elements from `first_element` on.
template <typename T>
absl::Status CheckFinite(const SourceTensor& tensor, uint64_t first_element,
                         std::span<const T> values) {
  const size_t bad = kernels::FindNotFinite(values);
  if (bad == values.size()) return absl::OkStatus();
  std::vector<uint64_t> index(tensor.shape.size());
  uint64_t rest = first_element + bad;
  for (size_t i = index.size(); i-- > 0; rest /= tensor.shape[i]) index[i] = rest % tensor.shape[i];
  return InvalidArgument("tensor {}: element [{}] is {}, expected a number that is finite in bf16",
                         ShownName(tensor.name), ShownNumbers(index), AsFloat(values[bad]));
}

}  // namespace

absl::StatusOr<WeightSource> WeightSource::Open(const std::string& path,
                                                const ModelFamily& family) {
  if (IsGgufPath(path)) {
    LOCKSTEP_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
    std::vector<SourceTensor> tensors = GgufTensors(file);
    return WeightSource(path, family, std::move(file), std::move(tensors));
  }
  return OpenFolder(path, family);
}

absl::StatusOr<WeightSource> WeightSource::OpenFolder(const std::string& path,
                                                      const ModelFamily& family) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<QuantizationConfig> config,
                            LoadQuantizationConfig(path));
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsCheckpoint checkpoint, SafetensorsCheckpoint::Open(path));
  QuantizedModules quantized;
  if (config.has_value()) {
    absl::StatusOr<QuantizedModules> found = FindQuantizedModules(checkpoint, *config, family);
    if (!found.ok()) return Annotate(found.status(), path);
    quantized = *std::move(found);
  }
  std::vector<SourceTensor> tensors;
  for (const std::string_view name : checkpoint.TensorNames()) {
    if (quantized.hidden.contains(name)) continue;
    SourceTensor& tensor = tensors.emplace_back(FromSafetensors(*checkpoint.Find(name)));
    tensor.may_be_unused = quantized.zero_biases.contains(name);
  }
  for (QuantizedModule& module : quantized.modules) {
    tensors.push_back({.name = std::move(module.weight_name),
                       .shape = std::move(module.shape),
                       .type_name = std::string(WeightFormatName(module.weight->scheme().format)),
                       .type = GgmlType::kBF16,
                       .supported = true,
                       .data = {},
                       .quantized = std::move(module.weight)});
  }
  WeightSource source(path, family, std::move(checkpoint), std::move(tensors));
  source.summary_ = std::move(quantized.summary);
  source.warning_ = std::move(quantized.warning);
  return source;
}

WeightSource::WeightSource(std::string path, const ModelFamily& family, Files files,
                           std::vector<SourceTensor> tensors)
    : path_(std::move(path)),
      family_(&family),
      files_(std::move(files)),
      tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
}

const SourceTensor* WeightSource::Find(std::string_view name) const {
  const auto place = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const SourceTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return place != tensors_.end() && place->name == name ? &*place : nullptr;
}

WeightSource WeightSource::Random(const std::string& path, const ModelFamily& family,
                                  const ModelPlan& plan, uint64_t seed,
                                  const RandomCodesOfModule& codes_of) {
  std::vector<SourceTensor> tensors;
  for (RandomTensorShape& tensor : RandomTensors(plan, family.hugging_face, seed)) {
    std::optional<RandomCodes> codes;
    if (codes_of && tensor.is_linear) {
      codes = codes_of(std::string_view(tensor.name).substr(0, tensor.name.rfind('.')));
    }
    if (codes && !Fit(*codes, static_cast<int64_t>(tensor.shape[1]))) codes.reset();
    tensors.push_back({.name = std::move(tensor.name),
                       .shape = std::move(tensor.shape),
                       .type_name = "random",
                       .supported = true,
                       .data = {},
                       .random = tensor.values});
    tensors.back().random_codes = codes;
  }
  return WeightSource(path, family, std::monostate(), std::move(tensors));
}

uint64_t WeightSource::Fingerprint() const {
  uint64_t fingerprint = Hash64(std::string_view("weights"));
  for (const SourceTensor& tensor : tensors_) {
    uint64_t label = Hash64(tensor.type_name, Hash64(tensor.name));
    if (tensor.random.has_value()) label = CombineHashes(label, tensor.random->seed);
    if (tensor.random_codes.has_value()) {
      label = CombineHashes(label, FingerprintOf(*tensor.random_codes));
    }
    if (tensor.quantized != nullptr) label = CombineHashes(label, tensor.quantized->Fingerprint());
    fingerprint = CombineHashes(fingerprint, Hash64(tensor.data, label));
  }
  return fingerprint;
}

absl::Status ReadRows(const SourceTensor& tensor, int64_t first_row, int64_t row_elements,
                      std::span<float> values) {
  if (tensor.random_codes.has_value()) {
    const int64_t num_rows = static_cast<int64_t>(values.size()) / row_elements;
    const kernels::QuantizedMatrix rows =
        RandomRows(*tensor.random, *tensor.random_codes, {first_row, num_rows, row_elements});
    std::vector<kernels::BFloat16> rounded(static_cast<size_t>(row_elements));
    for (int64_t row = 0; row < num_rows; ++row) {
      kernels::DequantizeRow(rows, row, rounded.data());
      std::ranges::transform(rounded, values.begin() + row * row_elements, kernels::ToFloat);
    }
    return absl::OkStatus();
  }
  if (tensor.random.has_value()) {
    FillRandom(*tensor.random, static_cast<uint64_t>(first_row * row_elements), values);
    return absl::OkStatus();
  }
  if (tensor.quantized != nullptr) {
    std::vector<kernels::BFloat16> rounded(values.size());
    LOCKSTEP_RETURN_IF_ERROR(tensor.quantized->ReadRows(first_row, rounded));
    for (size_t i = 0; i < values.size(); ++i) values[i] = kernels::ToFloat(rounded[i]);
    return absl::OkStatus();
  }
  // Values are checked while they are in the cache.
  constexpr int64_t kSliceElements = 1 << 15;
  const int64_t slice_rows = std::max<int64_t>(kSliceElements / row_elements, 1);
  const int64_t end_row = first_row + static_cast<int64_t>(values.size()) / row_elements;
  for (int64_t row = first_row; row < end_row; row += slice_rows) {
    const auto slice =
        values.subspan(static_cast<size_t>((row - first_row) * row_elements),
                       static_cast<size_t>(std::min(slice_rows, end_row - row) * row_elements));
    const auto bytes = RowBytes(tensor, row, row_elements, slice.size());
    if (absl::Status status = kernels::Dequantize(tensor.type, bytes, slice); !status.ok()) {
      return Annotate(status, fmt::format("tensor {}", ShownName(tensor.name)));
    }
    LOCKSTEP_RETURN_IF_ERROR(
        CheckFinite<float>(tensor, static_cast<uint64_t>(row * row_elements), slice));
  }
  return absl::OkStatus();
}

absl::Status CopyRows(const SourceTensor& tensor, int64_t first_row, int64_t row_elements,
                      std::span<kernels::BFloat16> values) {
  if (tensor.quantized != nullptr) return tensor.quantized->ReadRows(first_row, values);
  const auto bytes = RowBytes(tensor, first_row, row_elements, values.size());
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return CheckFinite<kernels::BFloat16>(tensor, static_cast<uint64_t>(first_row * row_elements),
                                        values);
}

bool HasCodes(const SourceTensor& tensor) {
  if (tensor.random.has_value()) return tensor.random_codes.has_value();
  return tensor.quantized != nullptr || kernels::HasCodes(tensor.type);
}

bool HasFp8Codes(const SourceTensor& tensor) {
  if (tensor.random.has_value()) {
    return tensor.random_codes.has_value() &&
           tensor.random_codes->kind == kernels::CodeKind::kFp8E4M3;
  }
  return tensor.quantized != nullptr &&
         CodesOfScheme(tensor.quantized->scheme()).kind == kernels::CodeKind::kFp8E4M3;
}

uint64_t NumCodes(const WeightSource& source) {
  uint64_t num_codes = 0;
  for (const SourceTensor& tensor : source.tensors()) {
    if (!HasCodes(tensor)) continue;
    uint64_t num_elements = 1;
    for (const uint64_t size : tensor.shape) num_elements *= size;
    num_codes += num_elements;
  }
  return num_codes;
}

absl::StatusOr<kernels::QuantizedMatrix> ReadCodes(const SourceTensor& tensor) {
  if (tensor.random_codes.has_value()) {
    return RandomRows(
        *tensor.random, *tensor.random_codes,
        {0, static_cast<int64_t>(tensor.shape[0]), static_cast<int64_t>(tensor.shape[1])});
  }
  if (tensor.quantized != nullptr) return tensor.quantized->Decode();
  return kernels::DecodeGgufCodes(
      {.name = tensor.name, .type = tensor.type, .shape = tensor.shape, .data = tensor.data});
}

}  // namespace lockstep::worker
