#include "router/core/kv/kv_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

const KvGroup kAllTokens = {.num_blocks = 8};
const KvGroup kWindow = {.num_blocks = 8, .retention = Retention::kWindow, .window_tokens = 32};

void ExpectRefused(const KvGroups& groups, absl::StatusCode code, std::string_view reason) {
  const absl::Status status = Validate(groups);
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_THAT(Message(status), HasSubstr(reason));
}

TEST(KvGroupTest, BlocksOfAWindow) {
  const auto num_blocks = [](uint32_t window_tokens, uint32_t block_size_tokens) {
    KvGroup group = kWindow;
    group.window_tokens = window_tokens;
    group.block_size_tokens = block_size_tokens;
    return group.NumWindowBlocks();
  };
  EXPECT_EQ(num_blocks(1, 16), 0u) << "a token that reads itself alone";
  EXPECT_EQ(num_blocks(2, 16), 1u);
  EXPECT_EQ(num_blocks(17, 16), 1u);
  EXPECT_EQ(num_blocks(18, 16), 2u);
  EXPECT_EQ(num_blocks(32, 16), 2u);
  EXPECT_EQ(num_blocks(5, 1), 4u);
  EXPECT_EQ(num_blocks(4294967295, 16), 268435456u);
}

TEST(KvGroupTest, BlocksBehindTheWindow) {
  EXPECT_EQ(kAllTokens.NumBehind(100), 0u);
  EXPECT_EQ(kWindow.NumBehind(2), 0u);
  EXPECT_EQ(kWindow.NumBehind(3), 1u) << "token 48 reads from token 17 on, in block 1";
  EXPECT_EQ(kWindow.NumBehind(100), 98u);
}

TEST(KvGroupTest, RefusesWhatMakesNoSense) {
  const auto refused = [](auto breaks, std::string_view reason) {
    KvGroup group = kWindow;
    breaks(group);
    ExpectRefused({group}, absl::StatusCode::kInvalidArgument, reason);
  };
  refused([](KvGroup& group) { group.block_size_tokens = 0; }, "block_size_tokens");
  refused([](KvGroup& group) { group.num_blocks = 0; }, "num_blocks");
  refused([](KvGroup& group) { group.num_blocks = 3; }, "needs at least 4");
  refused([](KvGroup& group) { group.window_tokens = 0; }, "window_tokens");
  refused([](KvGroup& group) { group.retention = Retention::kAll; }, "window_tokens");
  ExpectRefused({}, absl::StatusCode::kInvalidArgument, "none");
}

TEST(KvGroupTest, RefusesByNameWhatNoCodeServes) {
  KvGroup state = kAllTokens;
  state.retention = Retention::kState;
  ExpectRefused({state}, absl::StatusCode::kUnimplemented, "a state in place of KV");
  ExpectRefused({kWindow}, absl::StatusCode::kUnimplemented, "first group");
  KvGroup small = kWindow;
  small.block_size_tokens = 8;
  ExpectRefused({kAllTokens, small}, absl::StatusCode::kUnimplemented, "blocks of 8 tokens beside");
  ExpectRefused({kAllTokens, state}, absl::StatusCode::kUnimplemented, "kv_groups[1]");
  EXPECT_TRUE(Validate({kAllTokens}).ok());
  EXPECT_TRUE(Validate({kAllTokens, kWindow}).ok());
}

}  // namespace
}  // namespace lockstep::router
