// Routers that share a worker, on a virtual clock: the worker's real ledger, the routers' real
// watch, and the pauses of their links. Routers and worker come and go at random. Once nothing
// happens any more, the worker gets a router and keeps it: nobody fights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "router/workers/orphan_watch.h"
#include "worker/service/lease_ledger.h"

namespace lockstep {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kWait = absl::Seconds(30);
constexpr absl::Duration kHandBackGrace = absl::Seconds(30);
constexpr absl::Duration kMaxPause = absl::Seconds(3);  // of an owner between two claims

class World {
 public:
  // `ranks`: of each router. Routers that were told different numbers of routers may have the same
  // rank, or none may own the worker.
  World(const std::vector<uint32_t>& ranks, uint64_t seed) : random_(seed) {
    for (const uint32_t rank : ranks) routers_.push_back({.rank = rank});
    RestartWorker();
  }

  void StartRouter(size_t i) {
    if (routers_[i].watch.has_value()) return;
    routers_[i].watch.emplace(kWait * routers_[i].rank);
    routers_[i].next_attempt = now_;
  }
  void KillRouter(size_t i) {
    routers_[i].watch.reset();
    if (holder_ == i) EndLease();
  }
  void RestartWorker() {
    ledger_.emplace(++incarnation_);
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
  uint32_t rank_of(size_t i) const { return routers_[i].rank; }
  bool alive(size_t i) const { return routers_[i].watch.has_value(); }

 private:
  struct Router {
    uint32_t rank = 0;
    std::optional<router::OrphanWatch> watch = {};  // while it is alive
    Instant next_attempt = {};
  };

  void Tick() {
    if (holder_.has_value() && ledger_->asked_back()) {
      if (hand_back_at_ == Instant::InfiniteFuture()) hand_back_at_ = now_ + UpTo(kHandBackGrace);
      if (now_ >= hand_back_at_) EndLease();
    }
    for (size_t i = 0; i < routers_.size(); ++i) {
      Router& router = routers_[i];
      if (router.watch.has_value() && holder_ != i && now_ >= router.next_attempt) Attempt(i);
    }
  }

  void Attempt(size_t i) {
    Router& router = routers_[i];
    router.next_attempt = now_ + kMaxPause / 2 + UpTo(kMaxPause / 2);
    if (router.rank > 0 && router.watch->Look({.incarnation = incarnation_,
                                               .last_epoch = ledger_->last_epoch(),
                                               .live_epoch = ledger_->live_epoch()},
                                              now_) > absl::ZeroDuration()) {
      return;
    }
    worker::v1::StepRequest claim;
    claim.set_epoch(ledger_->last_epoch() + 1);
    claim.mutable_claim()->set_stand_in(router.rank > 0);
    if (!ledger_->Claim(claim).ok()) return;
    EXPECT_FALSE(holder_.has_value()) << "a living lease was taken";
    holder_ = i;
    ++num_grants_;
    hand_back_at_ = Instant::InfiniteFuture();
  }

  void EndLease() {
    ledger_->End(ledger_->live_epoch());
    routers_[*holder_].next_attempt = now_;
    holder_.reset();
  }

  std::mt19937_64 random_;
  std::vector<Router> routers_;
  std::optional<worker::LeaseLedger> ledger_;
  uint64_t incarnation_ = 0;
  std::optional<size_t> holder_;
  Instant hand_back_at_ = Instant::InfiniteFuture();
  Instant now_ = Instant::After(absl::Seconds(1'000'000));
  uint32_t num_grants_ = 0;
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
    world.Run(2 * kWait + kHandBackGrace + 4 * kMaxPause);
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
  world.Run(kTick);
  EXPECT_EQ(world.holder(), 0u);
  world.KillRouter(0);
  world.Run(kWait - 2 * kTick - kMaxPause);
  EXPECT_FALSE(world.holder().has_value());
  world.StartRouter(0);
  world.Run(kTick);
  EXPECT_EQ(world.holder(), 0u);
  EXPECT_EQ(world.num_grants(), 2u);
}

TEST(ShardLeaseTest, TheNextInOrderStandsInAndGivesTheWorkerBack) {
  World world({2, 0, 1}, 1);
  for (size_t i = 0; i < 3; ++i) world.StartRouter(i);
  world.Run(kTick);
  EXPECT_EQ(world.holder(), 1u);
  world.KillRouter(1);
  world.Run(kWait + 2 * kMaxPause);
  EXPECT_EQ(world.holder(), 2u);
  world.StartRouter(1);
  world.Run(kHandBackGrace + 2 * kMaxPause);
  EXPECT_EQ(world.holder(), 1u);
  world.KillRouter(1);
  world.KillRouter(2);
  world.Run(2 * kWait + 2 * kMaxPause);
  EXPECT_EQ(world.holder(), 0u);
}

}  // namespace
}  // namespace lockstep
