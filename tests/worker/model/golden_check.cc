#include "tests/worker/model/golden_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tensor_compare.h"
#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"

namespace lockstep::worker {

double RmsOf(const std::vector<double>& rms_of_rows) {
  double sum = 0.0;
  for (const double rms : rms_of_rows) sum += rms * rms;
  return std::sqrt(sum / static_cast<double>(rms_of_rows.size()));
}

void ExpectCloseToGolden(ForwardModel& model, const std::string& folder) {
  for (const GoldenPrompt& prompt : ReadGoldenPrompts(folder)) {
    SCOPED_TRACE(prompt.name);
    const uint32_t length = static_cast<uint32_t>(prompt.tokens.size());
    const std::vector<float> logits = SequenceRunner(model, prompt.tokens).RunInStepsOf(length);
    ASSERT_TRUE(IsFinite(logits));
    const ErrorSummary error = SummariseError(logits, prompt.logits);
    EXPECT_LE(error.rms, kErrorFactor * RmsOf(prompt.bf16_rms_error));
    EXPECT_LE(error.max, kErrorFactor * *std::max_element(prompt.bf16_max_error.begin(),
                                                          prompt.bf16_max_error.end()));
    EXPECT_GT(error.rms, 0.0) << "the fp32 reference cannot be met exactly in bf16";
  }
}

void ExpectSameBitsInAnySteps(ForwardModel& model, const std::string& folder) {
  for (const GoldenPrompt& prompt : ReadGoldenPrompts(folder)) {
    SCOPED_TRACE(prompt.name);
    const uint32_t length = static_cast<uint32_t>(prompt.tokens.size());
    SequenceRunner runner(model, prompt.tokens);
    const std::vector<float> whole = runner.RunInStepsOf(length);
    for (const uint32_t step_length : {1u, 3u, 16u, 17u}) {
      EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(step_length), whole)) << step_length;
    }
  }
}

}  // namespace lockstep::worker
