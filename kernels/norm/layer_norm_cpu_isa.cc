#include "kernels/norm/layer_norm_isa.h"
#include "kernels/norm/row_norm.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

struct Identity {
  float operator()(float value) const { return value; }
};
struct SquaredDistance {
  float mean;
  float operator()(float value) const { return (value - mean) * (value - mean); }
};

// mean of term(value), by the tree that rms_norm.h describes.
template <typename Term>
[[gnu::always_inline]] inline float MeanOf(const BFloat16* values, int64_t size, Term term) {
  float partial[kNormPartials] = {};
  int64_t i = 0;
  for (; i + kNormPartials <= size; i += kNormPartials) {
    for (int j = 0; j < kNormPartials; ++j) partial[j] += term(ToFloat(values[i + j]));
  }
  for (int j = 0; i + j < size; ++j) partial[j] += term(ToFloat(values[i + j]));
  for (int stride = kNormPartials / 2; stride > 0; stride /= 2) {
    for (int j = 0; j < stride; ++j) partial[j] += partial[j + stride];
  }
  return partial[0] / static_cast<float>(size);
}

}  // namespace

void LayerNormRows(const LayerNormParams& params, int64_t row_begin, int64_t row_end) {
  const int64_t size = params.size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const BFloat16* values = params.input + row * size;
    if (params.delta != nullptr) {
      const BFloat16* delta = params.delta + row * size;
      BFloat16* residual = params.residual_out + row * size;
      for (int64_t i = 0; i < size; ++i) {
        residual[i] = ToBFloat16(ToFloat(values[i]) + ToFloat(delta[i]));
      }
      values = residual;
    }
    const float mean = MeanOf(values, size, Identity{});
    const float variance = MeanOf(values, size, SquaredDistance{mean});
    const float inverse = 1.0f / __builtin_sqrtf(variance + params.eps);
    BFloat16* output = params.output + row * size;
    for (int64_t i = 0; i < size; ++i) {
      output[i] =
          ToBFloat16((ToFloat(values[i]) - mean) * inverse * params.weight[i] + params.bias[i]);
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
