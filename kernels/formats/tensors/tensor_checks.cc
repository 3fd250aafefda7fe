#include "kernels/formats/tensors/tensor_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/small_floats.h"
#include "kernels/quant/finite.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie");

template <typename T>
T ElementAt(const SafetensorsTensor& tensor, size_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + index * sizeof(T), sizeof(T));
  return value;
}

size_t NumElements(const SafetensorsTensor& tensor) {
  return tensor.data.size() / SafetensorsDtypeBytes(tensor.dtype);
}

float FloatAt(const SafetensorsTensor& tensor, size_t index) {
  switch (tensor.dtype) {
    case SafetensorsDtype::kF16:
      return Float16ToFloat(ElementAt<uint16_t>(tensor, index));
    case SafetensorsDtype::kBF16:
      return ToFloat(BFloat16{ElementAt<uint16_t>(tensor, index)});
    default:
      return ElementAt<float>(tensor, index);
  }
}

// As "[3, 17]". (gcc 12 with sanitizers warns of fmt::join at -O3.)
template <typename Range>
std::string ListOf(const Range& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

// The index of an element.
std::string Place(const SafetensorsTensor& tensor, size_t element) {
  std::vector<uint64_t> index(tensor.shape.size());
  uint64_t rest = element;
  for (size_t i = index.size(); i-- > 0; rest /= tensor.shape[i]) index[i] = rest % tensor.shape[i];
  return ListOf(index);
}

// The largest magnitude that a code can stand for.
float MaxMagnitude(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return 15.0f;
    case CodeKind::kInt8:
      return 255.0f;
    case CodeKind::kFp8E4M3:
      return kMaxE4M3;
    case CodeKind::kFp4E2M1:
      return 6.0f;
    case CodeKind::kInt4Min:
      return 15.0f;
    case CodeKind::kInt5:
    case CodeKind::kInt5Min:
      return 31.0f;
    case CodeKind::kInt6:
      return 63.0f;
  }
  return std::numeric_limits<float>::infinity();
}

absl::Status CheckCodes(std::string_view name, const QuantizedMatrix& matrix) {
  if (matrix.kind != CodeKind::kFp8E4M3) return absl::OkStatus();
  const auto bad = std::find_if(matrix.codes.begin(), matrix.codes.end(), IsE4M3Nan);
  if (bad == matrix.codes.end()) return absl::OkStatus();
  const int64_t index = bad - matrix.codes.begin();
  return InvalidArgument("tensor {}: element [{}, {}] is NaN", name, index / matrix.k,
                         index % matrix.k);
}

float LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}
float SmallestMagnitude(std::span<const float> values) {
  float smallest = std::numeric_limits<float>::infinity();
  for (const float value : values) smallest = std::min(smallest, std::fabs(value));
  return smallest;
}

// No s is larger than this.
float LargestScale(const QuantizedMatrix& matrix) {
  const float largest = LargestMagnitude(matrix.scales);
  if (!matrix.has_two_levels()) return largest;
  return matrix.CombineScales(largest, matrix.block_scales_divide
                                           ? SmallestMagnitude(matrix.block_scales)
                                           : LargestMagnitude(matrix.block_scales));
}
float LargestMinimum(const QuantizedMatrix& matrix) {
  const float largest = LargestMagnitude(matrix.minima);
  return matrix.block_minima.empty() ? largest : largest * LargestMagnitude(matrix.block_minima);
}

// Most matrices cannot overflow, and are not looked at element by element.
absl::Status CheckFiniteValues(std::string_view name, const QuantizedMatrix& matrix) {
  const float bound = LargestScale(matrix) * MaxMagnitude(matrix.kind) + LargestMinimum(matrix);
  if (FindNotFinite(std::span(&bound, 1)) == 1) return absl::OkStatus();
  std::vector<BFloat16> row(static_cast<size_t>(matrix.k));
  for (int64_t n = 0; n < matrix.n; ++n) {
    DequantizeRow(matrix, n, row.data());
    const size_t bad = FindNotFinite(std::span<const BFloat16>(row));
    if (bad == row.size()) continue;
    return InvalidArgument(
        "tensor {}: element [{}, {}] times its scale is {}, expected a number that is finite in "
        "bf16",
        name, n, bad, ToFloat(row[bad]));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ModuleTensors::NameOf(std::string_view suffix) const {
  return fmt::format("{}.{}", module, suffix);
}

absl::StatusOr<const SafetensorsTensor*> ModuleTensors::Get(std::string_view suffix) const {
  const SafetensorsTensor* const tensor = find(suffix);
  if (tensor == nullptr) return InvalidArgument("tensor {} is missing", NameOf(suffix));
  return tensor;
}

std::string DescribeTensor(const SafetensorsTensor& tensor) {
  return fmt::format("{} {}", SafetensorsDtypeName(tensor.dtype), ListOf(tensor.shape));
}

absl::Status ExpectDtype(const SafetensorsTensor& tensor,
                         std::initializer_list<SafetensorsDtype> dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
    std::string expected;
    for (const SafetensorsDtype dtype : dtypes) {
      expected += fmt::format("{}{}", expected.empty() ? "" : " or ", SafetensorsDtypeName(dtype));
    }
    return InvalidArgument("tensor {}: dtype is {}, expected {}", tensor.name,
                           SafetensorsDtypeName(tensor.dtype), expected);
  }
  uint64_t num_bytes = SafetensorsDtypeBytes(tensor.dtype);
  bool fits = true;
  for (const uint64_t size : tensor.shape) {
    fits = fits && !__builtin_mul_overflow(num_bytes, size, &num_bytes);
  }
  if (fits && num_bytes == tensor.data.size()) return absl::OkStatus();
  return InvalidArgument("tensor {}: {} does not take {} bytes", tensor.name,
                         DescribeTensor(tensor), tensor.data.size());
}

absl::Status ExpectShape(const SafetensorsTensor& tensor, std::initializer_list<int64_t> shape) {
  const bool is_equal =
      std::equal(tensor.shape.begin(), tensor.shape.end(), shape.begin(), shape.end(),
                 [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); });
  if (is_equal) return absl::OkStatus();
  return InvalidArgument("tensor {}: shape is {}, expected {}", tensor.name, ListOf(tensor.shape),
                         ListOf(shape));
}

absl::StatusOr<MatrixShape> ReadMatrixShape(const SafetensorsTensor& tensor) {
  const auto& shape = tensor.shape;
  uint64_t elements = 0;
  const bool fits = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 &&
                    !__builtin_mul_overflow(shape[0], shape[1], &elements) &&
                    elements <= static_cast<uint64_t>(kMaxMatrixElements);
  if (!fits) {
    return InvalidArgument("tensor {}: shape is {}, expected [rows, columns]", tensor.name,
                           ListOf(shape));
  }
  return MatrixShape{static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1])};
}

bool AllBytesAre(std::byte value, const SafetensorsTensor& tensor) {
  return std::ranges::all_of(tensor.data, [value](std::byte byte) { return byte == value; });
}

uint32_t WordAt(const SafetensorsTensor& tensor, int64_t index) {
  return ElementAt<uint32_t>(tensor, static_cast<size_t>(index));
}

absl::StatusOr<std::vector<float>> ReadScales(const SafetensorsTensor& tensor) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(
      tensor, {SafetensorsDtype::kF32, SafetensorsDtype::kF16, SafetensorsDtype::kBF16}));
  std::vector<float> values(NumElements(tensor));
  for (size_t i = 0; i < values.size(); ++i) values[i] = FloatAt(tensor, i);
  const size_t bad = FindNotFinite(std::span<const float>(values));
  if (bad == values.size()) return values;
  return InvalidArgument("tensor {}: element {} is {}, expected a finite scale", tensor.name,
                         Place(tensor, bad), values[bad]);
}

absl::StatusOr<std::vector<float>> ReadRoundedScales(const SafetensorsTensor& tensor) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<float> values, ReadScales(tensor));
  for (float& value : values) value = RoundToBFloat16(value);
  return values;
}

absl::StatusOr<std::vector<int64_t>> ReadIntegers(const SafetensorsTensor& tensor) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(tensor, {SafetensorsDtype::kI64, SafetensorsDtype::kI32}));
  std::vector<int64_t> values(NumElements(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.dtype == SafetensorsDtype::kI64 ? ElementAt<int64_t>(tensor, i)
                                                       : ElementAt<int32_t>(tensor, i);
  }
  return values;
}

absl::Status SetGroupOfColumn(const SafetensorsTensor& g_idx, int64_t num_groups,
                              QuantizedMatrix* matrix) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(g_idx, {matrix->k}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, ReadIntegers(g_idx));
  bool is_trivial = true;
  std::vector<int32_t> group_of_column(groups.size());
  for (size_t column = 0; column < groups.size(); ++column) {
    if (groups[column] < 0 || groups[column] >= num_groups) {
      return InvalidArgument("tensor {}: element [{}] is {}, expected a group from 0 to {}",
                             g_idx.name, column, groups[column], num_groups - 1);
    }
    group_of_column[column] = static_cast<int32_t>(groups[column]);
    const int64_t plain = static_cast<int64_t>(column) / matrix->group_columns;
    is_trivial = is_trivial && groups[column] == plain;
  }
  if (!is_trivial) matrix->group_of_column = std::move(group_of_column);
  return absl::OkStatus();
}

absl::StatusOr<QuantizedMatrix> Finish(std::string_view name, QuantizedMatrix matrix) {
  const uint8_t middle = MiddleCode(matrix.kind);
  const bool all_middle = std::all_of(matrix.zeros.begin(), matrix.zeros.end(),
                                      [middle](uint8_t zero) { return zero == middle; });
  if (all_middle) matrix.zeros.clear();
  LOCKSTEP_RETURN_IF_ERROR(CheckCodes(name, matrix));
  LOCKSTEP_RETURN_IF_ERROR(CheckFiniteValues(name, matrix));
  return matrix;
}

}  // namespace lockstep::kernels
