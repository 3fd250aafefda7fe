#include "kernels/activation/gelu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/kernels/activation/gelu_reference.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class GeluTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  std::vector<BFloat16> Run(const Stream& stream, const std::vector<BFloat16>& input, GeluForm form,
                            int64_t num_rows = 1) const {
    std::vector<BFloat16> output(input.size());
    EXPECT_THAT(Gelu(stream, {.input = input.data(),
                              .output = output.data(),
                              .num_rows = num_rows,
                              .size = static_cast<int64_t>(input.size()) / num_rows,
                              .form = form}),
                IsOk());
    return output;
  }
};

TEST_P(GeluTest, IsCloseToTheReferenceOnEveryFiniteInput) {
  const std::vector<BFloat16> input = testing::EveryFiniteBFloat16();
  for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
    const std::vector<BFloat16> output = Run({.instruction_set = GetParam()}, input, form);
    EXPECT_TRUE(testing::IsGelu(output, input, form));
  }
}

TEST_P(GeluTest, KeepsNan) {
  const std::vector<BFloat16> input(3, ToBFloat16(std::numeric_limits<float>::quiet_NaN()));
  for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
    EXPECT_TRUE(std::isnan(ToFloat(Run({.instruction_set = GetParam()}, input, form)[1])));
  }
}

TEST_P(GeluTest, BitsDoNotDependOnRowsThreadsOrInstructionSet) {
  const std::vector<BFloat16> input = RandomBFloat16s(37 * 101, 1, Distribution::kOutliers);
  ThreadPool threads(3);
  for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
    EXPECT_TRUE(
        IsSameBits(Run({.threads = &threads, .instruction_set = GetParam()}, input, form, 37),
                   Run(Stream{}, input, form)));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, GeluTest, EveryInstructionSet(), InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
