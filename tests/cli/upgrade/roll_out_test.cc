#include "cli/serve/upgrade/roll_out.h"

#include <gtest/gtest.h>

#include <ostream>

#include "common/instant.h"
#include "common/runtime/clock.h"

namespace lockstep::cli {

void PrintTo(const RollOut::Decision& decision, std::ostream* out) {
  *out << "event " << static_cast<int>(decision.event) << " of worker " << decision.worker;
}

namespace {

using Event = RollOut::Event;
using Decision = RollOut::Decision;

constexpr WorkerView kUp = {.running = true, .listening = true, .router = RouterView::kReady};
constexpr WorkerView kGone = {.running = false, .listening = false, .router = RouterView::kOther};
constexpr WorkerView kLoads = {.running = true, .listening = false, .router = RouterView::kOther};
constexpr WorkerView kListens = {.running = true, .listening = true, .router = RouterView::kOther};
constexpr WorkerView kWrong = {
    .running = true, .listening = true, .router = RouterView::kMismatched};

class RollOutTest : public ::testing::Test {
 protected:
  void Make(size_t num_workers) {
    roll_out_.emplace(num_workers);
    workers_.assign(num_workers, kUp);
  }
  Decision Look() { return roll_out_->Look(workers_, clock_.Now()); }
  // The decision once the worker is as given.
  Decision LookWith(size_t worker, const WorkerView& view) {
    workers_[worker] = view;
    return Look();
  }
  // From the worker's turn until it loads its successor.
  void EndAndStart(size_t worker) {
    EXPECT_EQ(Look(), (Decision{Event::kEnd, worker}));
    EXPECT_EQ(roll_out_->OnEnded(worker, true), Decision());
    EXPECT_EQ(LookWith(worker, kGone), (Decision{Event::kStart, worker}));
    EXPECT_EQ(LookWith(worker, kLoads), Decision());
  }
  // From there until the router uses it.
  Decision Join(size_t worker) {
    EXPECT_EQ(LookWith(worker, kListens), Decision());
    return LookWith(worker, kUp);
  }

  FakeClock clock_;
  std::optional<RollOut> roll_out_;
  std::vector<WorkerView> workers_;
};

TEST_F(RollOutTest, OneWorkerAfterTheOther) {
  Make(3);
  for (size_t worker = 0; worker < 3; ++worker) {
    EndAndStart(worker);
    EXPECT_EQ(Join(worker), (Decision{worker == 2 ? Event::kDone : Event::kReplaced, worker}));
  }
  EXPECT_TRUE(roll_out_->over());
  EXPECT_EQ(Look(), Decision());
}

TEST_F(RollOutTest, AWorkerMayDrainAsLongAsItLikes) {
  Make(2);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));
  clock_.Advance(absl::Hours(10));
  EXPECT_EQ(Look(), Decision());
  EXPECT_TRUE(roll_out_->Ends(0));
  EXPECT_FALSE(roll_out_->Ends(1));
}

TEST_F(RollOutTest, ASuccessorMayLoadAsLongAsItLikes) {
  Make(1);
  EndAndStart(0);
  EXPECT_FALSE(roll_out_->asks_router());
  clock_.Advance(absl::Hours(10));
  EXPECT_EQ(Look(), Decision());
  EXPECT_EQ(Join(0), (Decision{Event::kDone, 0}));
}

TEST_F(RollOutTest, ASuccessorStartsOnceTheRouterHasNoticedTheEnd) {
  Make(2);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));
  WorkerView gone = kGone;
  gone.router = RouterView::kReady;
  EXPECT_EQ(LookWith(0, gone), Decision());
  gone.router = RouterView::kMismatched;  // what was said about the process before
  EXPECT_EQ(LookWith(0, gone), Decision());
  gone.router = RouterView::kUnknown;  // the router itself is away
  EXPECT_EQ(LookWith(0, gone), (Decision{Event::kStart, 0}));
}

TEST_F(RollOutTest, TheNextWorkerWaitsUntilTheRouterUsesTheSuccessor) {
  Make(2);
  EndAndStart(0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(LookWith(0, kListens), Decision());
  EXPECT_EQ(LookWith(0, kUp), (Decision{Event::kReplaced, 0}));
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 1}));
}

TEST_F(RollOutTest, NoWorkerEndsWhileAnotherOneIsAway) {
  Make(3);
  workers_[2] = kGone;
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 2}));
  clock_.Advance(absl::Hours(1));  // it loads
  EXPECT_EQ(Look(), Decision());
  EXPECT_EQ(LookWith(2, kLoads), Decision());
  EXPECT_EQ(LookWith(2, kListens), Decision());
  EXPECT_EQ(LookWith(2, kUp), (Decision{Event::kEnd, 0}));
}

TEST_F(RollOutTest, AWorkerThatDiesWhenItIsNotItsTurnComesBackFirst) {
  Make(2);
  EndAndStart(0);
  EXPECT_EQ(roll_out_->OnEnded(1, true), Decision());
  workers_[1] = kGone;
  EXPECT_EQ(Join(0), (Decision{Event::kReplaced, 0}));
  // It is its turn. Its end needs no drain.
  EXPECT_EQ(Look(), (Decision{Event::kStart, 1}));

  Make(2);
  EndAndStart(0);
  EXPECT_EQ(Join(0), (Decision{Event::kReplaced, 0}));
  EXPECT_EQ(roll_out_->OnEnded(0, true), Decision());
  EXPECT_EQ(LookWith(0, kGone), (Decision{Event::kWaits, 0}));
  EXPECT_EQ(LookWith(0, kUp), (Decision{Event::kEnd, 1}));
}

TEST_F(RollOutTest, ASuccessorThatEndsStopsTheRollOut) {
  for (const bool listened : {false, true}) {
    Make(2);
    EndAndStart(0);
    if (listened) {
      EXPECT_EQ(LookWith(0, kListens), Decision());
    }
    EXPECT_EQ(roll_out_->OnEnded(0, listened), (Decision{Event::kEndedEarly, 0}));
    EXPECT_TRUE(roll_out_->over());
    EXPECT_EQ(Look(), Decision());
  }
}

TEST_F(RollOutTest, AnotherWorkerThatCannotStartStopsTheRollOut) {
  Make(2);
  workers_[1] = kLoads;
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 1}));
  EXPECT_EQ(roll_out_->OnEnded(1, false), (Decision{Event::kEndedEarly, 1}));
}

TEST_F(RollOutTest, ASuccessorThatTheRouterRefusesStopsTheRollOut) {
  Make(2);
  EndAndStart(0);
  EXPECT_EQ(LookWith(0, kListens), Decision());
  EXPECT_EQ(LookWith(0, kWrong), (Decision{Event::kMismatched, 0}));
  EXPECT_TRUE(roll_out_->over());
}

TEST_F(RollOutTest, AMismatchedWorkerIsReplacedButNoOtherOneMeanwhile) {
  Make(2);
  workers_[0] = kWrong;
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));  // it serves nothing
  Make(2);
  workers_[1] = kWrong;
  EXPECT_EQ(Look(), (Decision{Event::kMismatched, 1}));
}

TEST_F(RollOutTest, AWorkerThatListensHasABoundedTimeUntilTheRouterUsesIt) {
  Make(2);
  EndAndStart(0);
  EXPECT_EQ(LookWith(0, kListens), Decision());
  clock_.Advance(RollOut::kJoinPatience - absl::Milliseconds(1));
  EXPECT_EQ(Look(), Decision());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Look(), (Decision{Event::kNotUsed, 0}));
  EXPECT_TRUE(roll_out_->over());
}

TEST_F(RollOutTest, SoHasAnotherWorker) {
  Make(2);
  clock_.Advance(absl::Hours(1));
  workers_[1] = kListens;
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 1}));
  clock_.Advance(RollOut::kJoinPatience - absl::Milliseconds(1));
  EXPECT_EQ(Look(), Decision());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Look(), (Decision{Event::kNotUsed, 1}));
}

}  // namespace
}  // namespace lockstep::cli
