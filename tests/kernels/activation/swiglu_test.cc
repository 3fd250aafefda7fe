#include "kernels/activation/swiglu.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/core/vector_math.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class SwiGluTest : public ::testing::TestWithParam<InstructionSet> {};

// The formula itself is tested in vector_math_test; every kernel must give its bits.
TEST_P(SwiGluTest, GivesTheFormulasBitsForAnyShapeAndTeam) {
  ThreadPool threads(3);
  for (const int64_t num_rows : {1, 3, 37}) {
    for (const int64_t size : {1, 16, 100, 1536}) {
      const std::vector<BFloat16> gate_up =
          RandomBFloat16s(static_cast<size_t>(num_rows * 2 * size), 1, Distribution::kOutliers);
      std::vector<BFloat16> expected;
      for (int64_t row = 0; row < num_rows; ++row) {
        const BFloat16* gate = gate_up.data() + row * 2 * size;
        for (int64_t i = 0; i < size; ++i) {
          expected.push_back(ToBFloat16(GatedValue(ToFloat(gate[i]), ToFloat(gate[size + i]))));
        }
      }
      for (ThreadPool* team : {static_cast<ThreadPool*>(nullptr), &threads}) {
        std::vector<BFloat16> output(expected.size());
        ASSERT_THAT(
            SwiGlu({.threads = team, .instruction_set = GetParam()}, {.gate_up = gate_up.data(),
                                                                      .output = output.data(),
                                                                      .num_rows = num_rows,
                                                                      .size = size}),
            IsOk());
        EXPECT_TRUE(IsSameBits(output, expected)) << num_rows << " x " << size;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SwiGluTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
