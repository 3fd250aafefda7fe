#include "router/serving/status/request_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/instant.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RequestBoardTest : public ::testing::Test {
 protected:
  std::vector<std::string> Ids(const std::vector<RequestView>& views) const {
    std::vector<std::string> ids;
    for (const RequestView& view : views) ids.push_back(view.id);
    return ids;
  }
  std::shared_ptr<RequestBoard::Entry> Enter(const std::string& id,
                                             const std::string& tenant = "") {
    return board_.Enter(id, tenant, /*num_prompt_tokens=*/7, now_);
  }

  RequestBoard board_;
  Instant now_ = Instant::After(absl::Seconds(1000));
};

TEST_F(RequestBoardTest, ShowsHowFarARequestGot) {
  const auto entry = Enter("a");
  now_ += absl::Seconds(2);
  RequestView view = board_.Slowest(10, now_).at(0);
  EXPECT_EQ(view.id, "a");
  EXPECT_EQ(view.state, RequestState::kWaiting);
  EXPECT_EQ(view.age, absl::Seconds(2));
  EXPECT_EQ(view.num_prompt_tokens, 7u);
  EXPECT_EQ(view.first_token, absl::InfiniteDuration());
  entry->AddOutput(0, now_);
  EXPECT_EQ(board_.Slowest(10, now_).at(0).state, RequestState::kWaiting);
  entry->AddOutput(3, now_);
  now_ += absl::Seconds(1);
  entry->AddOutput(2, now_);
  view = board_.Slowest(10, now_).at(0);
  EXPECT_EQ(view.state, RequestState::kRunning);
  EXPECT_EQ(view.num_output_tokens, 5u);
  EXPECT_EQ(view.first_token, absl::Seconds(2));
}

TEST_F(RequestBoardTest, WhatEndedKeepsItsDurationForFiveMinutes) {
  const auto good = Enter("good");
  const auto bad = Enter("bad");
  now_ += absl::Seconds(4);
  board_.Leave(good, /*ok=*/true, now_);
  now_ += absl::Seconds(4);
  board_.Leave(bad, /*ok=*/false, now_);
  const std::vector<RequestView> views = board_.Slowest(10, now_ + absl::Minutes(4));
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].state, RequestState::kFailed);
  EXPECT_EQ(views[0].age, absl::Seconds(8));
  EXPECT_EQ(views[1].state, RequestState::kDone);
  EXPECT_EQ(views[1].age, absl::Seconds(4));
  EXPECT_THAT(board_.Slowest(10, now_ + absl::Minutes(6)), IsEmpty());
}

TEST_F(RequestBoardTest, TheSlowestComeFirst) {
  const auto oldest = Enter("oldest");
  now_ += absl::Seconds(1);
  const auto middle = Enter("middle");
  now_ += absl::Seconds(1);
  const auto newest = Enter("newest");
  now_ += absl::Seconds(1);
  EXPECT_THAT(Ids(board_.Slowest(10, now_)), ElementsAre("oldest", "middle", "newest"));
  EXPECT_THAT(Ids(board_.Slowest(2, now_)), ElementsAre("oldest", "middle"));
}

TEST_F(RequestBoardTest, ATenantSeesItsOwnRequestsAlone) {
  const auto theirs = Enter("theirs", "them");
  const auto ours = Enter("ours", "us");
  board_.Leave(Enter("ours-too", "us"), true, now_);
  EXPECT_THAT(Ids(board_.SlowestOf("us", 10, now_)), ElementsAre("ours", "ours-too"));
  EXPECT_THAT(Ids(board_.SlowestOf("them", 10, now_)), ElementsAre("theirs"));
  EXPECT_THAT(board_.SlowestOf("nobody", 10, now_), IsEmpty());
}

TEST_F(RequestBoardTest, OfManyThatEndedTheSlowestAreKept) {
  constexpr size_t kCount = 3 * RequestBoard::kMaxEnded;
  for (size_t i = 0; i < kCount; ++i) {
    const auto entry = Enter(std::to_string(i));
    board_.Leave(entry, true, now_ + absl::Milliseconds(1 + i * 7919 % kCount));
  }
  const std::vector<RequestView> views = board_.Slowest(kCount, now_);
  ASSERT_EQ(views.size(), RequestBoard::kMaxEnded);
  EXPECT_EQ(views.front().age, absl::Milliseconds(kCount));
  EXPECT_EQ(views.back().age, absl::Milliseconds(kCount - RequestBoard::kMaxEnded + 1));
}

TEST_F(RequestBoardTest, WhatEndedLongAgoMakesRoom) {
  for (size_t i = 0; i < RequestBoard::kMaxEnded; ++i) {
    const auto entry = Enter("slow");
    board_.Leave(entry, true, now_ + absl::Minutes(1));
  }
  now_ += absl::Minutes(1) + RequestBoard::kKept + absl::Seconds(1);
  board_.Leave(Enter("quick"), true, now_);
  EXPECT_THAT(Ids(board_.Slowest(10, now_)), ElementsAre("quick"));
}

}  // namespace
}  // namespace lockstep::router
