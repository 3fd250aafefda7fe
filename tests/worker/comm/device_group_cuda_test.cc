// The exchange of ranks on GPUs. If there are fewer GPUs than ranks, all ranks share the first one.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/cuda_test.h"
#include "tests/worker/comm/exchange_ranks.h"
#include "worker/comm/device_group.h"

namespace lockstep::worker {
namespace {

// The first five are pushed, by one to 48 blocks, one of them to the last byte; the others are put,
// by 5 to 64 blocks where ranks have devices of their own.
constexpr std::array<Shape, 8> kShapes = {Shape{1, 4},     Shape{3, 12},   Shape{1, 512},
                                          Shape{8, 4096},  Shape{5, 900},  Shape{64, 1024},
                                          Shape{2, 20000}, Shape{64, 8192}};
constexpr std::array<Shape, 4> kPushedShapes = {kShapes[0], kShapes[1], kShapes[2], kShapes[3]};

// A full queue of launches would make a rank wait that others on its device wait for.
constexpr int kTurnsUnderWay = 20;

void BeLate() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

class DeviceGroupCudaTest : public testing::CudaTest, public ::testing::WithParamInterface<int> {};

TEST_P(DeviceGroupCudaTest, EveryRankHasTheColumnsOfAll) {
  Ranks ranks(GetParam());
  constexpr int kTurns = 20;
  ranks.Run([](Rank& rank) {
    for (int i = 0; i < kTurns; ++i) rank.Enqueue(kShapes, /*faults=*/nullptr);
  });
  ranks.ExpectAllRight(kTurns * kShapes.size());
}

// More than the blocks of a call, which are 128 at most, store at once.
TEST_P(DeviceGroupCudaTest, ACallMayPutManyBytes) {
  Ranks ranks(GetParam());
  constexpr int kTurns = 10;
  constexpr std::array<Shape, 1> kLarge = {Shape{640, 2048}};
  ranks.Run([&](Rank& rank) {
    for (int i = 0; i < kTurns; ++i) rank.Enqueue(kLarge, /*faults=*/nullptr);
  });
  ranks.ExpectAllRight(kTurns);
}

// Ranks replay a graph or launch the same calls one by one, each as it likes, and their blocks
// sleep now and then.
TEST_P(DeviceGroupCudaTest, ReplaysAndLaunchesMayMixHoweverLateRanksCome) {
  Ranks ranks(GetParam());
  const ExchangeFaults delays = {.max_delay_ns = 20'000};
  constexpr int kTurns = 2'000;
  ranks.Run([&](Rank& rank) { rank.Capture(kShapes, &delays); });
  ranks.Run([&](Rank& rank) {
    std::mt19937 random(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&rank) >> 6));
    for (int i = 0; i < kTurns; ++i) {
      if (random() % 3 == 0) {
        rank.Enqueue(kShapes, random() % 2 == 0 ? &delays : nullptr);
      } else {
        rank.Replay();
      }
      if (random() % 100 == 0) BeLate();
      if (i % kTurnsUnderWay == 0) rank.CheckDevice();
    }
  });
  ranks.ExpectAllRight(kTurns * kShapes.size());
}

// Pushed words alone, as in decode: 200,000 exchanges of each rank. With --gtest_repeat=50 they are
// ten million.
TEST_P(DeviceGroupCudaTest, ManyPushedExchangesAreRight) {
  Ranks ranks(GetParam());
  constexpr int kRoundsOfGraph = 10;
  constexpr int kReplays = 5'000;
  std::vector<Shape> shapes;
  for (int i = 0; i < kRoundsOfGraph; ++i) {
    shapes.insert(shapes.end(), kPushedShapes.begin(), kPushedShapes.end());
  }
  ranks.Run([&](Rank& rank) { rank.Capture(shapes, /*faults=*/nullptr); });
  ranks.Run([](Rank& rank) {
    for (int i = 0; i < kReplays; ++i) {
      rank.Replay();
      if (i % 3 == 2) rank.CheckDevice();  // see kTurnsUnderWay
    }
  });
  ranks.ExpectAllRight(uint64_t{kReplays} * shapes.size());
}

// Before the border the memory is full of words with a tag that comes again soon after it.
TEST_P(DeviceGroupCudaTest, TagsBeginAgainAfterTheLastOne) {
  Ranks ranks(GetParam());
  const ExchangeFaults delays = {.max_delay_ns = 100'000};
  constexpr uint32_t kLeft = 2;      // calls before the border; they are pushed and small
  constexpr uint32_t kStaleTag = 2;  // of the call that pushes most
  // Of the first calls that put: the fourth and fifth after the border.
  constexpr std::array<uint32_t, 2> kStalePutTags = {4, 5};
  constexpr uint32_t kTurns = 12;
  for (const std::unique_ptr<Rank>& rank : ranks.ranks) {
    rank->Plant(kStaleTag, kStalePutTags, ExchangeMemory::kLastTag - kLeft);
  }
  ranks.Run([&](Rank& rank) {
    for (uint32_t i = 0; i < kTurns; ++i) rank.Enqueue(kShapes, &delays);
  });
  ranks.ExpectAllRight(kTurns * kShapes.size());
  for (const std::unique_ptr<Rank>& rank : ranks.ranks) {
    EXPECT_EQ(rank->last_tag(), kTurns * kShapes.size() - kLeft);
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, DeviceGroupCudaTest, ::testing::Values(2, 4));

class DeviceGroupCudaDeathTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

// Dies with the report of a hang, which comes within 5 s.
void DieOfHang(const DeviceGroup& group) {
  const auto begin = std::chrono::steady_clock::now();
  while (group.HangReport().empty()) {
    LOCKSTEP_CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5),
                   "it took too long");
  }
  LOCKSTEP_CHECK(false, "{}", group.HangReport());
}

void LetOneRankHang() {
  Ranks ranks(2);
  ranks.ranks[0]->MakeCurrent();
  ranks.ranks[0]->Enqueue(kPushedShapes, /*faults=*/nullptr);
  DieOfHang(*ranks.group);
}

TEST_F(DeviceGroupCudaDeathTest, ARankThatHangsEndsTheProcessWithinFiveSeconds) {
  EXPECT_DEATH(LetOneRankHang(), "rank 0 has waited 3000 ms for rank 1");
}

// A word that rank 1 has sent loses its tag before rank 0 looks for it.
void LoseAWord() {
  Ranks ranks(2);
  const std::array<Shape, 1> shape = {kShapes[2]};
  ranks.ranks[1]->MakeCurrent();
  ranks.ranks[1]->Enqueue(shape, /*faults=*/nullptr);
  uint64_t* const word = ranks.ranks[0]->FirstWordFrom(/*peer=*/1, /*tag=*/1);
  ranks.ranks[0]->MakeCurrent();
  // The copies below run beside the ranks' kernels. The last read shows that the write before it
  // has ended.
  uint64_t value = 0;
  const auto read = [&] {
    Expect(cudaMemcpy(&value, word, sizeof(value), cudaMemcpyDeviceToHost));
  };
  while (value >> 32 != 1) read();
  value = 0;
  Expect(cudaMemcpy(word, &value, sizeof(value), cudaMemcpyHostToDevice));
  read();
  ranks.ranks[0]->Enqueue(shape, /*faults=*/nullptr);
  DieOfHang(*ranks.group);
}

TEST_F(DeviceGroupCudaDeathTest, ALostWordEndsTheProcessWithinFiveSeconds) {
  EXPECT_DEATH(LoseAWord(), "rank 0 has waited 3000 ms for rank 1");
}

void LetRanksDisagree() {
  Ranks ranks(2);
  ranks.Run([&](Rank& rank) {
    const bool is_first = &rank == ranks.ranks[0].get();
    const Shape shapes[] = {{is_first ? 63 : 64, 1024}};
    rank.Enqueue(shapes, /*faults=*/nullptr);
  });
  ranks.Run([](Rank& rank) { rank.CheckDevice(); });
}

TEST_F(DeviceGroupCudaDeathTest, RanksThatDisagreeEndTheProcess) {
  EXPECT_DEATH(LetRanksDisagree(), "got other sizes from it");
}

// Planted: a rank that is one call ahead writes over words that a slow one has not read.
void LetHalvesNotTakeTurns() {
  Ranks ranks(2, std::chrono::milliseconds(300));
  const ExchangeFaults faults = {.alternates = false, .max_delay_ns = 200'000};
  ranks.Run([&](Rank& rank) {
    for (int i = 0; i < 200; ++i) {
      rank.Enqueue(kPushedShapes, &faults);
      if (i % kTurnsUnderWay == 0) rank.CheckDevice();
    }
  });
  ranks.Run([](Rank& rank) { rank.CheckDevice(); });
}

TEST_F(DeviceGroupCudaDeathTest, HalvesThatDoNotTakeTurnsAreFound) {
  EXPECT_DEATH(LetHalvesNotTakeTurns(), "has waited 300 ms for rank");
}

TEST(DeviceGroupTest, AGroupHasTwoToEightRanks) {
  for (const size_t degree : {0, 1, 9}) {
    const auto group = DeviceGroup::Create({.devices = std::vector<int>(degree, 0)});
    EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::worker
