#include "worker/model/numerics_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "tests/common/status_matchers.h"
#include "tests/support/fake_forward_model.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

TEST(NumericsProbeTest, AModelWithTheSameBitsInEveryScheduleMayServe) {
  testing::FakeForwardModel model;
  EXPECT_THAT(CheckProbeSchedules(model), IsOk());
}

TEST(NumericsProbeTest, BitsThatFollowTheScheduleAreRefused) {
  testing::FakeForwardModel model;
  model.set_after_forward([](const ForwardBatch& batch, std::span<float> logits) {
    if (batch.token_ids.size() == 1) logits[0] = std::nextafter(logits[0], 100.0f);
  });
  EXPECT_THAT(CheckProbeSchedules(model),
              HasError(absl::StatusCode::kInternal, HasSubstr("not the same bits")));
}

TEST(NumericsProbeTest, LogitsThatAreNoNumbersAreRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    testing::FakeForwardModel model;
    model.set_after_forward(
        [bad](const ForwardBatch&, std::span<float> logits) { logits[5] = bad; });
    EXPECT_THAT(CheckProbeSchedules(model),
                HasError(absl::StatusCode::kInvalidArgument, HasSubstr("the logit of token 5")));
  }
}

}  // namespace
}  // namespace lockstep::worker
