#include "kernels/gemm/self_check.h"

#include <bit>
#include <random>
#include <vector>

#include "common/status.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_matrix.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNumOutputs = 2 * kPanelOutputs + 7;
constexpr int64_t kRowCounts[] = {1, 2, 3, 5, 8, 13, 33, 100};
constexpr int64_t kMaxRows = 100;
constexpr int kOutlierPeriod = 97;
constexpr float kOutlierFactor = 64.0f;

std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = uniform(generator) * (i % kOutlierPeriod == 0 ? kOutlierFactor : 1.0f);
  }
  return values;
}

}  // namespace

absl::Status CheckGemmSchedule(const Stream& stream, int64_t k) {
  std::vector<BFloat16> packed(static_cast<size_t>(PackedElements(kNumOutputs, k)));
  PackRows(RandomValues(kNumOutputs * k, 1).data(), 0, kNumOutputs, k, packed.data());
  std::vector<BFloat16> input;
  for (const float value : RandomValues(kMaxRows * k, 2)) input.push_back(ToBFloat16(value));

  std::vector<float> expected(static_cast<size_t>(kMaxRows * kNumOutputs));
  GemmParams params = {.input = input.data(),
                       .input_stride = k,
                       .weights = {.data = packed.data(), .n = kNumOutputs, .k = k},
                       .output_f32 = expected.data(),
                       .output_stride = kNumOutputs,
                       .num_rows = 1};
  for (int64_t row = 0; row < kMaxRows; ++row) {
    LOCKSTEP_RETURN_IF_ERROR(Gemm(stream, params));
    params.input += k;
    params.output_f32 += kNumOutputs;
  }
  std::vector<float> together(expected.size());
  params.input = input.data();
  params.output_f32 = together.data();
  for (const int64_t num_rows : kRowCounts) {
    params.num_rows = num_rows;
    LOCKSTEP_RETURN_IF_ERROR(Gemm(stream, params));
    for (int64_t i = 0; i < num_rows * kNumOutputs; ++i) {
      const size_t index = static_cast<size_t>(i);
      if (std::bit_cast<uint32_t>(together[index]) == std::bit_cast<uint32_t>(expected[index])) {
        continue;
      }
      return Internal(
          "GEMM self-check: with k = {}, output {} of row {} is {} among {} rows but {} alone", k,
          i % kNumOutputs, i / kNumOutputs, together[index], num_rows, expected[index]);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
