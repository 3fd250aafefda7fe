#include "worker/model/numerics_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/fake_forward_model.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
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

// Remembers what the probe asks for.
class RecordingModel final : public ForwardModel {
 public:
  explicit RecordingModel(std::vector<KvGroupInfo> kv_groups) {
    info_.vocab_size = 64;
    info_.max_context_tokens = 4096;
    info_.max_step_tokens = 512;
    info_.max_logits_rows = 1;
    info_.kv_groups = std::move(kv_groups);
  }

  const ForwardModelInfo& info() const override { return info_; }
  void Forward(const ForwardBatch& batch, std::span<float> logits) override {
    std::ranges::fill(logits, 0.0f);
    num_tokens = std::max(num_tokens, batch.token_ids.size());
    const auto tables = batch.rows.front().block_tables;
    block_tables.assign(tables.begin(), tables.end());
  }

  size_t num_tokens = 0;
  std::vector<std::vector<BlockId>> block_tables;

 private:
  ForwardModelInfo info_;
};

TEST(NumericsProbeTest, EveryGroupHasATableOfBlocksInItsPool) {
  RecordingModel model({{.num_blocks = 64, .dtype = "bf16"},
                        {.num_blocks = 3, .window_tokens = 20, .dtype = "bf16"}});
  ProbeHash(model);
  EXPECT_EQ(model.num_tokens, 48u);
  EXPECT_THAT(model.block_tables, ElementsAre(ElementsAre(0u, 1u, 2u), ElementsAre(0u, 1u, 2u)));
}

// The prompt of the check passes a window that a step has room for. That of the numerics id does
// not depend on the size of a step.
TEST(NumericsProbeTest, PromptsAndWindows) {
  const auto tokens_of_check = [](int64_t window_tokens) {
    RecordingModel model({{.num_blocks = 64, .dtype = "bf16"}});
    EXPECT_TRUE(CheckProbeSchedules(model, window_tokens).ok());
    return model.num_tokens;
  };
  EXPECT_EQ(tokens_of_check(0), 160u);
  EXPECT_EQ(tokens_of_check(40), 160u) << "it passes the window as it is";
  EXPECT_EQ(tokens_of_check(448), 512u);
  EXPECT_EQ(tokens_of_check(449), 160u) << "a longer prompt would not pass the window either";
  RecordingModel model({{.num_blocks = 64, .dtype = "bf16"}});
  ProbeHash(model);
  EXPECT_EQ(model.num_tokens, 160u);
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
