#include "kernels/formats/gguf_codes/gguf_codes.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/tensor_checks.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kQ80Columns = 32;
constexpr int64_t kQ80Bytes = 34;

}  // namespace

bool HasCodes(GgmlType type) { return type == GgmlType::kQ8_0; }

absl::StatusOr<QuantizedMatrix> DecodeGgufCodes(const GgufTensor& tensor) {
  if (!HasCodes(tensor.type)) {
    return Unimplemented("tensor {}: {} is not computed from codes", tensor.name,
                         GgmlTypeName(tensor.type));
  }
  const auto& shape = tensor.shape;
  const bool is_matrix = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 &&
                         shape[1] % kQ80Columns == 0 &&
                         shape[0] <= static_cast<uint64_t>(kMaxMatrixElements) / shape[1];
  if (!is_matrix || tensor.data.size() != shape[0] * (shape[1] / kQ80Columns) * kQ80Bytes) {
    return InvalidArgument("tensor {}: expected a matrix with columns in multiples of {}",
                           tensor.name, kQ80Columns);
  }
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kInt8;
  matrix.n = static_cast<int64_t>(shape[0]);
  matrix.k = static_cast<int64_t>(shape[1]);
  matrix.group_columns = kQ80Columns;
  matrix.codes.reserve(static_cast<size_t>(matrix.n * matrix.k));
  const std::byte* const end = tensor.data.data() + tensor.data.size();
  for (const std::byte* block = tensor.data.data(); block != end; block += kQ80Bytes) {
    uint16_t half;
    std::memcpy(&half, block, sizeof(half));
    const float scale = Float16ToFloat(half);
    if (!std::isfinite(scale)) {
      const auto index = static_cast<int64_t>(matrix.scales.size());
      return InvalidArgument("tensor {}: the scale of row {}, block {} is {}", tensor.name,
                             index / matrix.num_groups(), index % matrix.num_groups(), scale);
    }
    matrix.scales.push_back(scale);
    for (int64_t i = 0; i < kQ80Columns; ++i) {
      matrix.codes.push_back(static_cast<uint8_t>(static_cast<uint8_t>(block[2 + i]) ^ 0x80u));
    }
  }
  return Finish(tensor.name, std::move(matrix));
}

}  // namespace lockstep::kernels
