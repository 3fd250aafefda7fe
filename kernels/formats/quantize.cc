#include "kernels/formats/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/small_floats.h"

namespace lockstep::kernels {
namespace {

// The difference of two of them is finite.
constexpr float kMaxValue = 0x1p126f;

// The range of signed codes.
struct CodeRange {
  float min, max;
};

CodeRange RangeOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
      return {-8.0f, 7.0f};
    case CodeKind::kInt8:
      return {-128.0f, 127.0f};
    default:
      return {-kMaxE4M3, kMaxE4M3};
  }
}

struct GroupParameters {
  float scale;
  float zero;  // signed
};

// One group's arithmetic: `Rounded` after every operation.
class GroupQuantizer {
 public:
  explicit GroupQuantizer(const QuantizeOptions& options)
      : options_(options), range_(RangeOf(options.kind)) {}

  // `min` <= 0 <= `max`
  GroupParameters Parameters(float min, float max) const {
    const float width = range_.max - range_.min;
    GroupParameters parameters = {0, 0};
    if (options_.symmetric) {
      parameters.scale = Rounded(std::max(-min, max) / (width / 2));
    } else {
      parameters.scale = Rounded(Rounded(max - min) / width);
      // A group of zeros has no quotient. Its zero point is 0.
      const float quotient = parameters.scale > 0 ? Rounded(min / parameters.scale) : range_.min;
      const float zero = Rounded(range_.min - quotient);
      parameters.zero = std::rint(std::clamp(zero, range_.min, range_.max));
    }
    if (options_.scales_in_bf16) parameters.scale = RoundToBFloat16(parameters.scale);
    if (parameters.scale == 0) parameters.scale = Epsilon();
    return parameters;
  }

  uint8_t Code(float value, const GroupParameters& parameters) const {
    const float quotient = Rounded(value / parameters.scale);
    const float moved = Rounded(quotient + parameters.zero);
    const float clamped = std::clamp(moved, range_.min, range_.max);
    if (options_.kind == CodeKind::kFp8E4M3) return FloatToE4M3(clamped);
    return static_cast<uint8_t>(std::rint(clamped) - range_.min);
  }

  uint8_t ZeroCode(const GroupParameters& parameters) const {
    return static_cast<uint8_t>(parameters.zero - range_.min);
  }

 private:
  float Rounded(float value) const {
    return options_.arithmetic == QuantizeArithmetic::kBFloat16 ? RoundToBFloat16(value) : value;
  }
  // What stands for a scale of 0: the distance of 1 to the next number.
  float Epsilon() const {
    const bool is_bf16 =
        options_.arithmetic == QuantizeArithmetic::kBFloat16 || options_.scales_in_bf16;
    return is_bf16 ? 0x1p-7f : std::numeric_limits<float>::epsilon();
  }

  const QuantizeOptions& options_;
  const CodeRange range_;
};

absl::Status CheckQuantizable(std::span<const float> values, int64_t k,
                              const QuantizeOptions& options) {
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float value) { return !(std::fabs(value) <= kMaxValue); });
  if (bad != values.end()) {
    const int64_t index = bad - values.begin();
    return InvalidArgument("element [{}, {}] is {}, expected a number within 2^126", index / k,
                           index % k, *bad);
  }
  if (options.group_rows == 1 && options.group_columns > 0 && k % options.group_columns != 0) {
    return InvalidArgument("{} columns do not divide into groups of {}", k, options.group_columns);
  }
  return absl::OkStatus();
}

struct Rectangle {
  int64_t row, num_rows, column, num_columns;
};

void QuantizeGroup(std::span<const float> values, const Rectangle& where,
                   const GroupQuantizer& quantizer, QuantizedMatrix* matrix) {
  float min = 0, max = 0;
  for (int64_t row = where.row; row < where.row + where.num_rows; ++row) {
    for (int64_t i = 0; i < where.num_columns; ++i) {
      const float value = values[static_cast<size_t>(row * matrix->k + where.column + i)];
      min = std::min(min, value);
      max = std::max(max, value);
    }
  }
  const GroupParameters parameters = quantizer.Parameters(min, max);
  for (int64_t row = where.row; row < where.row + where.num_rows; ++row) {
    const auto group =
        static_cast<size_t>(row * matrix->num_groups() + where.column / matrix->group_columns);
    matrix->scales[group] = parameters.scale;
    if (!matrix->zeros.empty()) matrix->zeros[group] = quantizer.ZeroCode(parameters);
    for (int64_t i = 0; i < where.num_columns; ++i) {
      const auto element = static_cast<size_t>(row * matrix->k + where.column + i);
      matrix->codes[element] = quantizer.Code(values[element], parameters);
    }
  }
}

}  // namespace

absl::StatusOr<QuantizedMatrix> QuantizeToNearest(std::span<const float> values, int64_t n,
                                                  int64_t k, const QuantizeOptions& options) {
  LOCKSTEP_CHECK(n > 0 && k > 0 && static_cast<int64_t>(values.size()) == n * k,
                 "{} values for {} x {}", values.size(), n, k);
  LOCKSTEP_CHECK(options.kind != CodeKind::kFp4E2M1, "E2M1 has no quantiser");
  LOCKSTEP_CHECK(options.symmetric || options.kind != CodeKind::kFp8E4M3,
                 "floating-point codes are symmetric");
  LOCKSTEP_RETURN_IF_ERROR(CheckQuantizable(values, k, options));
  QuantizedMatrix matrix;
  matrix.kind = options.kind;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = options.group_columns > 0 ? std::min(options.group_columns, k) : k;
  const auto num_scales = static_cast<size_t>(n * matrix.num_groups());
  matrix.codes.resize(values.size());
  matrix.scales.resize(num_scales);
  if (!options.symmetric) matrix.zeros.resize(num_scales);
  const int64_t rows = options.group_rows > 0 ? options.group_rows : n;
  const GroupQuantizer quantizer(options);
  for (int64_t row = 0; row < n; row += rows) {
    for (int64_t column = 0; column < k; column += matrix.group_columns) {
      QuantizeGroup(values,
                    {.row = row,
                     .num_rows = std::min(rows, n - row),
                     .column = column,
                     .num_columns = std::min(matrix.group_columns, k - column)},
                    quantizer, &matrix);
    }
  }
  return matrix;
}

}  // namespace lockstep::kernels
