#include "router/mailboxes/inbox.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

class InboxTest : public ::testing::Test {
 protected:
  void Listen() {
    inbox_.SetOnPost([this] { ++num_told_; });
  }

  Inbox inbox_;
  int num_told_ = 0;
};

TEST_F(InboxTest, TellsOnceOfWhatIsTakenTogether) {
  Listen();
  inbox_.Cancel({.request = 1, .cause = CancelCause::kClient});
  inbox_.Stop({.request = 2, .sample_index = 0});
  EXPECT_EQ(num_told_, 1);
  const InboxBatch batch = inbox_.Take();
  ASSERT_EQ(batch.cancellations.size(), 1u);
  EXPECT_EQ(batch.cancellations[0].request, 1u);
  ASSERT_EQ(batch.stops.size(), 1u);
  EXPECT_EQ(batch.stops[0].request, 2u);
  inbox_.Wake();
  EXPECT_EQ(num_told_, 2);
  EXPECT_TRUE(inbox_.Take().stops.empty());
}

TEST_F(InboxTest, KeepsWhatCameWhileNobodyListened) {
  inbox_.CancelAll();
  Listen();
  EXPECT_EQ(num_told_, 0) << "who begins to listen looks for itself";
  inbox_.Dismiss();
  EXPECT_EQ(num_told_, 1);
  const InboxBatch batch = inbox_.Take();
  EXPECT_TRUE(batch.cancel_all);
  EXPECT_TRUE(batch.dismissed);
}

TEST_F(InboxTest, TellsNobodyOnceNobodyListens) {
  Listen();
  inbox_.SetOnPost(nullptr);
  inbox_.Wake();
  EXPECT_EQ(num_told_, 0);
}

}  // namespace
}  // namespace lockstep::router
