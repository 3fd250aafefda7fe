#include "kernels/formats/quantize.h"

#include <algorithm>
#include <bit>
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

template <QuantizeArithmetic arithmetic>
float Rounded(float value) {
  return arithmetic == QuantizeArithmetic::kBFloat16 ? RoundToBFloat16(value) : value;
}

// The smallest and the largest of some values and 0. Lanes make vector instructions of it.
class Extremes {
 public:
  void Add(std::span<const float> values) {
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) Add(values[i + lane], lane);
    }
    for (; i < values.size(); ++i) Add(values[i], 0);
  }
  float Min() const { return *std::min_element(min_, min_ + kLanes); }
  float Max() const { return *std::max_element(max_, max_ + kLanes); }

 private:
  static constexpr size_t kLanes = 8;

  void Add(float value, size_t lane) {
    min_[lane] = value < min_[lane] ? value : min_[lane];
    max_[lane] = value > max_[lane] ? value : max_[lane];
  }

  float min_[kLanes] = {};
  float max_[kLanes] = {};
};

// To the nearest integer, ties to even, for magnitudes below 2^22. A loop of these becomes vector
// instructions; std::rint is a call.
float NearestInteger(float value) {
  constexpr float kMagic = 0x1.8p23f;
  return (value + kMagic) - kMagic;
}

// One group's arithmetic: rounded after every operation.
template <QuantizeArithmetic arithmetic>
GroupParameters ParametersOf(const QuantizeOptions& options, float min, float max) {
  const CodeRange range = RangeOf(options.kind);
  const float width = range.max - range.min;
  GroupParameters parameters = {0, 0};
  if (options.symmetric) {
    parameters.scale = Rounded<arithmetic>(std::max(-min, max) / (width / 2));
  } else {
    parameters.scale = Rounded<arithmetic>(Rounded<arithmetic>(max - min) / width);
    // A group of zeros has no quotient. Its zero point is 0.
    const float quotient =
        parameters.scale > 0 ? Rounded<arithmetic>(min / parameters.scale) : range.min;
    const float zero = Rounded<arithmetic>(range.min - quotient);
    parameters.zero = std::rint(std::clamp(zero, range.min, range.max));
  }
  if (options.scales_in_bf16) parameters.scale = RoundToBFloat16(parameters.scale);
  if (parameters.scale != 0) return parameters;
  // The distance of 1 to the next number stands for a scale of 0.
  const bool is_bf16 = arithmetic == QuantizeArithmetic::kBFloat16 || options.scales_in_bf16;
  parameters.scale = is_bf16 ? 0x1p-7f : std::numeric_limits<float>::epsilon();
  return parameters;
}

// `parameters` and `range` are copies. A store of a code could change the targets of references.
template <QuantizeArithmetic arithmetic, bool is_float>
void EncodeRun(std::span<const float> values, GroupParameters parameters, CodeRange range,
               uint8_t* __restrict codes) {
  const float* const __restrict first = values.data();
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    const float quotient = Rounded<arithmetic>(first[i] / parameters.scale);
    const float moved = Rounded<arithmetic>(quotient + parameters.zero);
    const float above = moved > range.min ? moved : range.min;
    const float clamped = above < range.max ? above : range.max;
    codes[i] =
        is_float ? ClampedToE4M3(clamped)
                 : static_cast<uint8_t>(static_cast<int32_t>(NearestInteger(clamped) - range.min));
  }
}

absl::Status CheckQuantizable(std::span<const float> values, int64_t k,
                              const QuantizeOptions& options) {
  const auto is_bad = [](float value) { return !(std::fabs(value) <= kMaxValue); };
  uint32_t any_bad = 0;  // without an exit, so that it becomes vector instructions
  for (const float value : values) any_bad |= static_cast<uint32_t>(is_bad(value));
  if (any_bad != 0) {
    const auto bad = std::find_if(values.begin(), values.end(), is_bad);
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

template <QuantizeArithmetic arithmetic>
void QuantizeGroup(std::span<const float> values, const Rectangle& where,
                   const QuantizeOptions& options, QuantizedMatrix* matrix) {
  const auto run = [&](int64_t row) {
    return values.subspan(static_cast<size_t>(row * matrix->k + where.column),
                          static_cast<size_t>(where.num_columns));
  };
  Extremes extremes;
  for (int64_t row = where.row; row < where.row + where.num_rows; ++row) extremes.Add(run(row));
  const GroupParameters parameters =
      ParametersOf<arithmetic>(options, extremes.Min(), extremes.Max());
  const CodeRange range = RangeOf(options.kind);
  for (int64_t row = where.row; row < where.row + where.num_rows; ++row) {
    const auto group =
        static_cast<size_t>(row * matrix->num_groups() + where.column / matrix->group_columns);
    matrix->scales[group] = parameters.scale;
    if (!matrix->zeros.empty()) {
      matrix->zeros[group] = static_cast<uint8_t>(parameters.zero - range.min);
    }
    uint8_t* const codes = matrix->codes.data() + row * matrix->k + where.column;
    if (options.kind == CodeKind::kFp8E4M3) {
      EncodeRun<arithmetic, true>(run(row), parameters, range, codes);
    } else {
      EncodeRun<arithmetic, false>(run(row), parameters, range, codes);
    }
  }
}

}  // namespace

absl::StatusOr<QuantizedMatrix> QuantizeToNearest(std::span<const float> values, int64_t n,
                                                  int64_t k, const QuantizeOptions& options) {
  LOCKSTEP_CHECK(n > 0 && k > 0 && static_cast<int64_t>(values.size()) == n * k,
                 "{} values for {} x {}", values.size(), n, k);
  LOCKSTEP_CHECK(options.kind == CodeKind::kInt4 || options.kind == CodeKind::kInt8 ||
                     options.kind == CodeKind::kFp8E4M3,
                 "these codes have no quantiser");
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
  const auto quantize = options.arithmetic == QuantizeArithmetic::kBFloat16
                            ? QuantizeGroup<QuantizeArithmetic::kBFloat16>
                            : QuantizeGroup<QuantizeArithmetic::kFloat32>;
  for (int64_t row = 0; row < n; row += rows) {
    for (int64_t column = 0; column < k; column += matrix.group_columns) {
      quantize(values,
               {.row = row,
                .num_rows = std::min(rows, n - row),
                .column = column,
                .num_columns = std::min(matrix.group_columns, k - column)},
               options, &matrix);
    }
  }
  return matrix;
}

}  // namespace lockstep::kernels
