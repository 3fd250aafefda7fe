#include "cli/serve/upgrade/roll_out.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "common/instant.h"
#include "common/runtime/clock.h"

namespace lockstep::cli {

void PrintTo(const RollOut::Decision& decision, std::ostream* out) {
  *out << "event " << static_cast<int>(decision.event) << " of worker " << decision.worker
       << ", cause " << static_cast<int>(decision.cause);
}

namespace {

using Cause = RollOut::Cause;
using Event = RollOut::Event;
using Decision = RollOut::Decision;

constexpr WorkerView kUp = {.running = true, .listening = true, .router = RouterView::kReady};
constexpr WorkerView kGone = {.running = false, .listening = false, .router = RouterView::kOther};
constexpr WorkerView kLoads = {.running = true, .listening = false, .router = RouterView::kOther};
constexpr WorkerView kListens = {.running = true, .listening = true, .router = RouterView::kOther};
constexpr WorkerView kUnknown = {
    .running = true, .listening = true, .router = RouterView::kUnknown};
constexpr WorkerView kWrong = {
    .running = true, .listening = true, .router = RouterView::kMismatched};

class RollOutTest : public ::testing::Test {
 protected:
  void Make(size_t num_workers) {
    roll_out_.emplace(num_workers, clock_.Now());
    workers_.assign(num_workers, kUp);
  }
  Decision Look() { return roll_out_->Look(workers_, clock_.Now()); }
  // The decision once the worker is as given.
  Decision LookWith(size_t worker, const WorkerView& view) {
    workers_[worker] = view;
    return Look();
  }
  bool NeedsRouter() const { return roll_out_->NeedsRouter(workers_); }
  // From the worker's turn until it loads its successor.
  void EndAndStart(size_t worker) {
    EXPECT_EQ(Look(), (Decision{Event::kEnd, worker}));
    EXPECT_EQ(roll_out_->turn(), worker);
    EXPECT_EQ(roll_out_->OnEnded(worker), Decision());
    EXPECT_EQ(LookWith(worker, kGone), (Decision{Event::kStart, worker}));
    EXPECT_EQ(LookWith(worker, kLoads), Decision());
  }
  // From there until the router uses it.
  Decision Join(size_t worker) {
    EXPECT_EQ(LookWith(worker, kListens), Decision());
    return LookWith(worker, kUp);
  }
  void Replace(size_t worker) {
    EndAndStart(worker);
    EXPECT_EQ(Join(worker), (Decision{Event::kReplaced, worker}));
  }
  // Nothing happens until the patience is over.
  Decision LookAfterPatience() {
    clock_.Advance(RollOut::kJoinPatience - absl::Milliseconds(1));
    EXPECT_EQ(Look(), Decision());
    clock_.Advance(absl::Milliseconds(1));
    return Look();
  }

  FakeClock clock_;
  std::optional<RollOut> roll_out_;
  std::vector<WorkerView> workers_;
};

TEST_F(RollOutTest, OneWorkerAfterTheOther) {
  Make(3);
  for (size_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(roll_out_->num_replaced(), worker);
    EXPECT_FALSE(roll_out_->over());
    Replace(worker);
  }
  EXPECT_TRUE(roll_out_->over());
  EXPECT_EQ(Look(), Decision());
}

TEST_F(RollOutTest, AWorkerMayDrainAsLongAsItLikes) {
  Make(2);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));
  EXPECT_FALSE(NeedsRouter());
  clock_.Advance(absl::Hours(10));
  EXPECT_EQ(Look(), Decision());
  EXPECT_TRUE(roll_out_->Ends(0));
  EXPECT_FALSE(roll_out_->Ends(1));
}

TEST_F(RollOutTest, ASuccessorMayLoadAsLongAsItLikes) {
  Make(1);
  EndAndStart(0);
  EXPECT_FALSE(NeedsRouter());
  clock_.Advance(absl::Hours(10));
  EXPECT_EQ(Look(), Decision());
  EXPECT_EQ(Join(0), (Decision{Event::kReplaced, 0}));
}

TEST_F(RollOutTest, ASuccessorStartsOnceTheRouterHasNoticedTheEnd) {
  Make(2);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));
  WorkerView gone = kGone;
  gone.router = RouterView::kReady;
  EXPECT_EQ(LookWith(0, gone), Decision());
  EXPECT_TRUE(NeedsRouter());
  gone.router = RouterView::kMismatched;  // what was said about the process before
  EXPECT_EQ(LookWith(0, gone), Decision());
  gone.router = RouterView::kUnknown;  // the router itself is away
  EXPECT_EQ(LookWith(0, gone), (Decision{Event::kStart, 0}));
}

TEST_F(RollOutTest, ARouterThatNeverNoticesTheEndDoesNotHoldTheSuccessorUp) {
  Make(1);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 0}));
  clock_.Advance(absl::Hours(10));
  EXPECT_EQ(Look(), Decision());
  WorkerView gone = kGone;
  gone.router = RouterView::kReady;
  workers_[0] = gone;
  EXPECT_EQ(LookAfterPatience(), (Decision{Event::kStart, 0}));
}

TEST_F(RollOutTest, TheNextWorkerWaitsUntilTheRouterUsesTheSuccessor) {
  Make(2);
  EndAndStart(0);
  EXPECT_EQ(LookWith(0, kListens), Decision());
  EXPECT_TRUE(NeedsRouter());
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 0, Cause::kNotUsed}));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Look(), Decision());
  EXPECT_EQ(LookWith(0, kUp), (Decision{Event::kReplaced, 0}));
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 1}));
}

TEST_F(RollOutTest, WorkersThatServeNothingGoFirst) {
  for (const WorkerView& view : {kGone, kLoads, kWrong}) {
    Make(3);
    workers_[1] = kUnknown;
    workers_[2] = view;
    EXPECT_EQ(Look(), (Decision{Event::kEnd, 2}));
    EXPECT_EQ(LookWith(2, kGone), (Decision{Event::kStart, 2}));
    EXPECT_EQ(LookWith(2, kListens), Decision());
    EXPECT_EQ(LookWith(2, kUp), (Decision{Event::kReplaced, 2}));
    workers_[1] = kUp;
    Replace(0);
    Replace(1);
    EXPECT_TRUE(roll_out_->over());
  }
}

TEST_F(RollOutTest, SoDoesAWorkerThatTheRouterDoesNotUseForLong) {
  Make(2);
  workers_[1] = kListens;
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 1, Cause::kNotUsed}));
  EXPECT_EQ(LookAfterPatience(), (Decision{Event::kEnd, 1}));
}

TEST_F(RollOutTest, NoWorkerThatServesEndsWhileTheRouterDoesNotUseAnotherOne) {
  Make(2);
  Replace(0);
  for (const WorkerView& view : {kListens, kUnknown, kWrong}) {
    workers_[0] = view;
    Look();
    EXPECT_EQ(Look(), Decision());
  }
  EXPECT_EQ(LookWith(0, kUp), (Decision{Event::kEnd, 1}));
}

TEST_F(RollOutTest, AWorkerThatWasReplacedHasABoundedTimeUntilTheRouterUsesItAgain) {
  const std::pair<WorkerView, Cause> kCases[] = {
      {kListens, Cause::kNotUsed}, {kUnknown, Cause::kRouterAway}, {kWrong, Cause::kMismatched}};
  for (const auto& [view, cause] : kCases) {
    Make(2);
    Replace(0);
    clock_.Advance(absl::Hours(1));
    EXPECT_EQ(Look(), (Decision{Event::kEnd, 1}));
    Make(2);
    Replace(0);
    workers_[0] = view;
    EXPECT_EQ(Look(), (Decision{Event::kWaits, 0, cause}));
    EXPECT_EQ(LookAfterPatience(), (Decision{Event::kFailed, 0, cause}));
    EXPECT_TRUE(roll_out_->over());
    EXPECT_EQ(roll_out_->turn(), std::nullopt);
  }
}

TEST_F(RollOutTest, WhileTheRouterIsAwayNothingEnds) {
  Make(1);
  workers_[0] = kUnknown;
  EXPECT_EQ(Look(), (Decision{Event::kWaits, 0, Cause::kRouterAway}));
  EXPECT_EQ(LookAfterPatience(), (Decision{Event::kFailed, 0, Cause::kRouterAway}));
}

TEST_F(RollOutTest, AnotherWorkerThatDiesIsReplacedNext) {
  Make(3);
  EndAndStart(0);
  EXPECT_EQ(roll_out_->OnEnded(2), Decision());  // it starts again, as always
  workers_[2] = kLoads;
  EXPECT_EQ(Join(0), (Decision{Event::kReplaced, 0}));
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 2}));
}

TEST_F(RollOutTest, ASuccessorThatEndsStopsTheRollOut) {
  for (const bool listened : {false, true}) {
    Make(2);
    EndAndStart(0);
    if (listened) {
      EXPECT_EQ(LookWith(0, kListens), Decision());
    }
    EXPECT_EQ(roll_out_->OnEnded(0), (Decision{Event::kFailed, 0, Cause::kEnded}));
    EXPECT_TRUE(roll_out_->over());
    EXPECT_EQ(roll_out_->turn(), 0u);
    EXPECT_EQ(Look(), Decision());
  }
}

TEST_F(RollOutTest, ANewProgramThatEndsAfterItWasReadyStopsTheRollOut) {
  Make(3);
  Replace(0);
  EXPECT_EQ(roll_out_->OnEnded(0), (Decision{Event::kFailed, 0, Cause::kEnded}));
  EXPECT_EQ(roll_out_->turn(), std::nullopt);
  Make(3);
  Replace(0);
  EXPECT_EQ(Look(), (Decision{Event::kEnd, 1}));
  EXPECT_EQ(roll_out_->OnEnded(0), (Decision{Event::kFailed, 0, Cause::kEnded}));
  EXPECT_EQ(roll_out_->turn(), 1u);
  EXPECT_FALSE(roll_out_->Ends(1));
}

TEST_F(RollOutTest, ASuccessorThatTheRouterRefusesStopsTheRollOut) {
  Make(2);
  EndAndStart(0);
  EXPECT_EQ(LookWith(0, kListens), Decision());
  EXPECT_EQ(LookWith(0, kWrong), (Decision{Event::kFailed, 0, Cause::kMismatched}));
  EXPECT_TRUE(roll_out_->over());
}

TEST_F(RollOutTest, AWorkerThatListensHasABoundedTimeUntilTheRouterUsesIt) {
  const std::pair<WorkerView, Cause> kCases[] = {{kListens, Cause::kNotUsed},
                                                 {kUnknown, Cause::kRouterAway}};
  for (const auto& [view, cause] : kCases) {
    Make(2);
    EndAndStart(0);
    clock_.Advance(absl::Hours(1));
    EXPECT_EQ(LookWith(0, view), Decision());
    EXPECT_EQ(Look(), (Decision{Event::kWaits, 0, cause}));
    EXPECT_EQ(LookAfterPatience(), (Decision{Event::kFailed, 0, cause}));
    EXPECT_TRUE(roll_out_->over());
  }
}

}  // namespace
}  // namespace lockstep::cli
