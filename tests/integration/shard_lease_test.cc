// Routers that share a worker, on a virtual clock: the worker's real ledger, the routers' real
// watch, and the pauses and claims of their links. Routers and worker come and go at random. Once
// nothing happens any more, the worker gets a router and keeps it: nobody fights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "router/workers/link/orphan_watch.h"
#include "router/workers/link/reattach_backoff.h"
#include "worker/service/lease_ledger.h"

namespace lockstep {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kWait = absl::Seconds(30);
constexpr absl::Duration kHandBackGrace = absl::Seconds(30);
constexpr absl::Duration kAtOnce = absl::Milliseconds(500);  // a claim arrives
constexpr absl::Duration kLook = absl::Seconds(1);
constexpr absl::Duration kStableLease = absl::Seconds(2);
const router::ReattachBackoff::Limits kPauses = {
    .min_pause = absl::Milliseconds(100),
    .max_pause = absl::Seconds(3),
    .max_lease_pause = router::LongestSharedPause(kWait)};

class World {
 public:
  // `ranks`: of each router. Routers that were told different numbers of routers may have the same
  // rank, or none may own the worker.
  World(const std::vector<uint32_t>& ranks, uint64_t seed)
      : random_(seed), ranks_(ranks), routers_(ranks.size()) {
    RestartWorker();
  }

  void StartRouter(size_t i) {
    if (!routers_[i].has_value()) routers_[i].emplace(ranks_[i]).next_attempt = now_;
  }
  void KillRouter(size_t i) {
    if (holder_ == i) EndLease();
    routers_[i].reset();
  }
  void RestartWorker() {
    if (holder_.has_value()) EndLease();
    ledger_.emplace(++incarnation_);
  }
  // As after a failure of the network.
  void EndLease() {
    Router& router = *routers_[*holder_];
    ledger_->End(ledger_->live_epoch());
    Sleep(router, router.backoff.AfterLease(now_ - granted_at_ >= kStableLease));
    holder_.reset();
  }
  void Run(absl::Duration span) {
    for (const Instant end = now_ + span; now_ < end; now_ += kTick) Tick();
  }
  // Something happens to a router or the worker.
  void Disturb() {
    const uint64_t what = random_() % (2 * routers_.size() + 1);
    if (what == 2 * routers_.size()) {
      RestartWorker();
    } else if (what % 2 == 0) {
      StartRouter(what / 2);
    } else {
      KillRouter(what / 2);
    }
  }
  absl::Duration UpTo(absl::Duration most) {
    return most * static_cast<int64_t>(random_() % 1000) / 1000;
  }

  // Who serves the worker.
  std::optional<size_t> holder() const { return holder_; }
  uint32_t num_grants() const { return num_grants_; }
  uint32_t rank_of(size_t i) const { return ranks_[i]; }
  bool alive(size_t i) const { return routers_[i].has_value(); }

 private:
  // One that lives.
  struct Router {
    explicit Router(uint32_t its_rank) : rank(its_rank), watch(kWait * its_rank) {}

    const uint32_t rank;
    router::OrphanWatch watch;
    router::ReattachBackoff backoff{kPauses};
    Instant next_attempt = {};
    std::optional<worker::v1::StepRequest> claim = {};  // on its way; arrives at next_attempt
    uint64_t last_granted = 0;
  };

  void Tick() {
    if (holder_.has_value() && ledger_->asked_back()) {
      if (hand_back_at_ == Instant::InfiniteFuture()) hand_back_at_ = now_ + UpTo(kHandBackGrace);
      if (now_ >= hand_back_at_) EndLease();
    }
    for (size_t i = 0; i < routers_.size(); ++i) {
      const std::optional<Router>& router = routers_[i];
      if (router.has_value() && holder_ != i && now_ >= router->next_attempt) Attempt(i);
    }
  }

  void Attempt(size_t i) {
    Router& router = *routers_[i];
    if (router.claim.has_value()) return Claim(i);
    const uint64_t live = ledger_->live_epoch();
    if (router.rank > 0 &&
        router.watch.Look(
            {.incarnation = incarnation_, .last_epoch = ledger_->last_epoch(), .live_epoch = live},
            now_) > absl::ZeroDuration()) {
      return Sleep(router, kLook);
    }
    // As GrpcStepLink makes it: a later claim has a higher epoch, and a router takes over if the
    // last lease was its own.
    const uint64_t held = ledger_->last_epoch();
    router.claim.emplace();
    router.claim->set_epoch(std::max(held + 1, ++num_claims_));
    router.claim->mutable_claim()->set_takeover(held != 0 && held == router.last_granted);
    router.claim->mutable_claim()->set_stand_in(router.rank > 0);
    router.next_attempt = now_ + kTick * static_cast<int64_t>(1 + random_() % 3);
  }

  void Claim(size_t i) {
    Router& router = *routers_[i];
    const worker::v1::StepRequest claim = *std::exchange(router.claim, std::nullopt);
    if (!ledger_->Claim(claim).ok()) return Sleep(router, router.backoff.AfterFailedAttempt());
    EXPECT_FALSE(holder_.has_value()) << "a living lease was taken";
    router.last_granted = claim.epoch();
    holder_ = i;
    granted_at_ = now_;
    ++num_grants_;
    hand_back_at_ = Instant::InfiniteFuture();
  }

  void Sleep(Router& router, absl::Duration pause) {
    router.next_attempt = now_ + pause / 2 + UpTo(pause / 2);
  }

  std::mt19937_64 random_;
  const std::vector<uint32_t> ranks_;
  std::vector<std::optional<Router>> routers_;
  std::optional<worker::LeaseLedger> ledger_;
  uint64_t incarnation_ = 0;
  std::optional<size_t> holder_;
  Instant granted_at_;
  Instant hand_back_at_ = Instant::InfiniteFuture();
  Instant now_ = Instant::After(absl::Seconds(1'000'000));
  uint32_t num_grants_ = 0;
  uint64_t num_claims_ = 0;
};

TEST(ShardLeaseTest, OnceNothingHappensTheWorkerKeepsItsRouter) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<uint32_t> ranks = {0, 1, 2};
    // Every third time, routers disagree about their number.
    if (seed % 3 == 0) {
      for (uint32_t& rank : ranks) rank = random() % 3;
    }
    World world(ranks, seed);
    for (int i = 0; i < 20; ++i) {
      world.Disturb();
      world.Run(world.UpTo(absl::Seconds(90)));
    }
    bool owner_lives = false;
    bool any_lives = false;
    for (size_t i = 0; i < ranks.size(); ++i) {
      any_lives |= world.alive(i);
      owner_lives |= world.alive(i) && ranks[i] == 0;
    }
    const uint32_t grants_before = world.num_grants();
    // The longest wait is that of the last in order. Then the owner may have to be waited for.
    world.Run(2 * kWait + kHandBackGrace + kPauses.max_lease_pause + 4 * kPauses.max_pause);
    const std::optional<size_t> holder = world.holder();
    ASSERT_EQ(holder.has_value(), any_lives) << "seed " << seed;
    EXPECT_LE(world.num_grants() - grants_before, 1u) << "seed " << seed;
    EXPECT_TRUE(!owner_lives || world.rank_of(*holder) == 0) << "seed " << seed;
    const uint32_t grants = world.num_grants();
    world.Run(absl::Hours(1));
    EXPECT_EQ(world.num_grants(), grants) << "seed " << seed;
    EXPECT_EQ(world.holder(), holder) << "seed " << seed;
  }
}

TEST(ShardLeaseTest, AnOwnerThatReturnsBeforeTheWaitIsOverFindsItsWorkerFree) {
  World world({0, 1}, 1);
  world.StartRouter(0);
  world.StartRouter(1);
  world.Run(kAtOnce);
  EXPECT_EQ(world.holder(), 0u);
  world.KillRouter(0);
  world.Run(kWait - 2 * kTick - kPauses.max_pause);
  EXPECT_FALSE(world.holder().has_value());
  world.StartRouter(0);
  world.Run(kAtOnce);
  EXPECT_EQ(world.holder(), 0u);
  EXPECT_EQ(world.num_grants(), 2u);
}

TEST(ShardLeaseTest, TheNextInOrderStandsInAndGivesTheWorkerBack) {
  World world({2, 0, 1}, 1);
  for (size_t i = 0; i < 3; ++i) world.StartRouter(i);
  world.Run(kAtOnce);
  EXPECT_EQ(world.holder(), 1u);
  world.KillRouter(1);
  world.Run(kWait + 2 * kPauses.max_pause);
  EXPECT_EQ(world.holder(), 2u);
  world.StartRouter(1);
  world.Run(kHandBackGrace + 2 * kPauses.max_pause);
  EXPECT_EQ(world.holder(), 1u);
  world.KillRouter(1);
  world.KillRouter(2);
  world.Run(2 * kWait + 2 * kPauses.max_pause);
  EXPECT_EQ(world.holder(), 0u);
}

TEST(ShardLeaseTest, AWorkerThatDiesAgainAndAgainStaysWithItsOwner) {
  World world({0, 1, 2}, 1);
  for (size_t i = 0; i < 3; ++i) world.StartRouter(i);
  for (int death = 0; death < 30; ++death) {
    for (int i = 0; i < 1000 && !world.holder().has_value(); ++i) world.Run(kTick);
    ASSERT_EQ(world.holder(), 0u) << "after " << death << " deaths";
    world.RestartWorker();
  }
}

// Its stand-in served last, so it claims with a takeover.
TEST(ShardLeaseTest, AnOwnerThatReturnsWhileItsStandInClaimsIsNotFenced) {
  for (absl::Duration away = kWait - 3 * kLook; away < kWait + 3 * kLook; away += kTick) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      World world({1, 0}, seed);
      world.StartRouter(0);
      world.Run(kWait + 2 * kLook);
      ASSERT_EQ(world.holder(), 0u);
      world.EndLease();
      world.Run(away);
      world.StartRouter(1);
      world.Run(kHandBackGrace + 2 * kPauses.max_pause);
      EXPECT_EQ(world.holder(), 1u);
    }
  }
}

}  // namespace
}  // namespace lockstep
