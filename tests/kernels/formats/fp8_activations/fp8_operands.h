#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/small_floats.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

// Operands of FP8 products on the device, and how tests run the products.
namespace lockstep::kernels {

using lockstep::testing::CudaTest;
using lockstep::testing::DeviceArray;

struct Fp8Shape {
  int64_t n;
  int64_t k;
};
inline constexpr Fp8Shape kLargeFp8Shapes[] = {
    {6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288},  // 8B
};
inline constexpr Fp8Shape kSmallFp8Shapes[] = {
    {4096, 1024}, {1024, 2048}, {1024, 3072},  // 0.6B
    {960, 576},   {3072, 576},  {576, 1536},   // SmolLM2: k is not a multiple of 128
    {200, 144},   {49, 16},     {136, 1040},   // nor n
};

// A stretch of about normal codes, again and again.
inline std::vector<uint8_t> RandomCodes(int64_t count, uint32_t seed) {
  constexpr size_t kStretch = 1'000'003;
  std::vector<uint8_t> stretch;
  for (const float value : RandomFloats(kStretch, seed)) {
    const uint8_t code = FloatToE4M3(100.0f * value);
    stretch.push_back(IsE4M3Nan(code) ? code ^ 1 : code);
  }
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = stretch[i % kStretch];
  return codes;
}

inline std::vector<float> RandomScales(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.5f, 2.0f);
  std::vector<float> scales;
  for (int64_t i = 0; i < count; ++i) scales.push_back(uniform(random) * 0x1p-12f);
  return scales;
}

inline int64_t NumTestScales(const Fp8Shape& shape, Fp8ScaleLayout layout) {
  if (layout == Fp8ScaleLayout::kChannel) return shape.n;
  return DivideUp(shape.n, int64_t{128}) * NumFp8Blocks(shape.k);
}

inline const char* NameOf(Fp8ScaleLayout layout) {
  return layout == Fp8ScaleLayout::kBlock ? "block scales" : "channel scales";
}
inline constexpr Fp8ScaleLayout kFp8Layouts[] = {Fp8ScaleLayout::kBlock, Fp8ScaleLayout::kChannel};

// Weights on the device and on the host.
struct TestWeights {
  TestWeights(const Fp8Shape& shape, Fp8ScaleLayout layout)
      : shape(shape),
        layout(layout),
        codes(RandomCodes(shape.n * shape.k, 11)),
        scales(RandomScales(NumTestScales(shape, layout), 12)),
        device_codes(codes),
        device_scales(scales) {}

  Fp8Weights OnDevice() const {
    return {.codes = device_codes.data(),
            .scales = device_scales.data(),
            .layout = layout,
            .n = shape.n,
            .k = shape.k};
  }
  float Scale(int64_t row, int64_t block) const {
    return scales[static_cast<size_t>(
        layout == Fp8ScaleLayout::kChannel ? row : row / 128 * NumFp8Blocks(shape.k) + block)];
  }

  Fp8Shape shape;
  Fp8ScaleLayout layout;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  DeviceArray<uint8_t> device_codes;
  DeviceArray<float> device_scales;
};

// Rows of activations. In memory NaN follows every row.
class TestRows {
 public:
  static constexpr int64_t kPadding = 8;

  TestRows(int64_t num_rows, int64_t k, Distribution distribution, uint32_t seed = 21)
      : TestRows(RandomBFloat16s(static_cast<size_t>(num_rows * k), seed, distribution), k) {}
  TestRows(const std::vector<BFloat16>& values, int64_t k) : k_(k), device_(Padded(values, k)) {}

  const BFloat16* data(int64_t first_row) const { return device_.data() + first_row * stride(); }
  int64_t stride() const { return k_ + kPadding; }

 private:
  static std::vector<BFloat16> Padded(const std::vector<BFloat16>& values, int64_t k) {
    const BFloat16 nan = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
    std::vector<BFloat16> padded;
    for (auto row = values.begin(); row != values.end(); row += k) {
      padded.insert(padded.end(), row, row + k);
      padded.insert(padded.end(), kPadding, nan);
    }
    return padded;
  }

  int64_t k_;
  DeviceArray<BFloat16> device_;
};

// Some rows in codes, on the device. Codes of NaN lie before and behind them, and NaN in the
// padding of the scales.
struct TestCodes {
  TestCodes(int64_t num_rows, int64_t k)
      : num_rows(num_rows),
        k(k),
        codes(static_cast<size_t>(num_rows * k)),
        scales(static_cast<size_t>(NumFp8Blocks(k) * ActivationScaleStride(num_rows))) {}

  QuantizeActivationsParams From(const TestRows& rows, int64_t first_row) const {
    return {.input = rows.data(first_row),
            .input_stride = rows.stride(),
            .num_rows = num_rows,
            .k = k,
            .codes = codes.data(),
            .scales = scales.data()};
  }

  int64_t num_rows;
  int64_t k;
  DeviceArray<uint8_t> codes;
  DeviceArray<float> scales;
};

class Fp8CudaTest : public CudaTest {
 protected:
  TestCodes Quantized(const TestRows& rows, int64_t first_row, int64_t num_rows, int64_t k) const {
    TestCodes codes(num_rows, k);
    EXPECT_THAT(QuantizeActivations(stream_, codes.From(rows, first_row)), IsOk());
    return codes;
  }

  static Fp8GemmParams Params(const TestCodes& codes, const TestWeights& weights) {
    return {.codes = codes.codes.data(),
            .scales = codes.scales.data(),
            .weights = weights.OnDevice(),
            .output_stride = weights.shape.n,
            .num_rows = codes.num_rows};
  }

  absl::Status Run(const Fp8GemmParams& params, const std::optional<Fp8Tiling>& tiling) const {
    return tiling.has_value() ? LaunchFp8Gemm(stream_, params, *tiling) : Fp8Gemm(stream_, params);
  }

  std::vector<float> Product(const TestCodes& codes, const TestWeights& weights,
                             const std::optional<Fp8Tiling>& tiling = std::nullopt) const {
    DeviceArray<float> output(static_cast<size_t>(codes.num_rows * weights.shape.n));
    Fp8GemmParams params = Params(codes, weights);
    params.output_f32 = output.data();
    EXPECT_THAT(Run(params, tiling), IsOk());
    std::vector<float> values = output.Read();
    output.ExpectGuardsIntact();
    return values;
  }
};

}  // namespace lockstep::kernels
