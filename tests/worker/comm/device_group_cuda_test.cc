// The exchange of ranks on GPUs. If there are fewer GPUs than ranks, all ranks share the first one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/exchange/exchange_memory.h"
#include "kernels/exchange/gathered_rms_norm.h"
#include "kernels/norm/rms_norm.h"
#include "tests/support/cuda_test.h"
#include "tests/support/rank_devices.h"
#include "tests/worker/comm/exchange_rounds.h"
#include "worker/comm/device_group.h"
#include "worker/comm/rank_team.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;
using kernels::ExchangeFaults;
using kernels::ExchangeMemory;
using testing::DeviceArray;

constexpr std::chrono::seconds kLong{60};
constexpr int64_t kMaxPushBytes = 128 << 10;

struct Shape {
  int64_t num_rows;
  int64_t row_words;  // of one rank's columns
};
constexpr int64_t kMostWords = 64 * 8192;
// An even number, so that buffers take turns from one round through the shapes to the next. The
// first five are pushed, by one to 16 blocks, one of them to the last byte; the others are pulled,
// by 5 to 64 blocks where ranks have devices of their own.
constexpr std::array<Shape, 8> kShapes = {Shape{1, 4},     Shape{3, 12},   Shape{1, 512},
                                          Shape{8, 4096},  Shape{5, 900},  Shape{64, 1024},
                                          Shape{2, 20000}, Shape{64, 8192}};
constexpr std::array<Shape, 4> kPushedShapes = {kShapes[0], kShapes[1], kShapes[2], kShapes[3]};

// A full queue of launches would make a rank wait that others on its device wait for.
constexpr int kTurnsUnderWay = 20;

void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }
void Expect(cudaError_t error) { Expect(kernels::CudaStatus(error, "CUDA")); }

void BeLate() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

// A rank's memory and stream, on its device.
class Rank {
 public:
  Rank(DeviceGroup& group, int rank, int device)
      : group_(group), rank_(rank), device_(device), is_current_(MakeCurrent()) {
    round_.Write(std::array<uint32_t, 1>{0});
    num_wrong_.Write(std::array<uint64_t, 1>{0});
    const auto description = kernels::DescribeCudaDevice(device);
    Expect(description.status());
    stream_.num_multiprocessors = description->num_multiprocessors;
    Expect(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking));
    stream_.overlap_launches = true;
  }
  ~Rank() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_.handle);
  }

  bool MakeCurrent() const {
    Expect(cudaSetDevice(device_));
    return true;
  }
  // Every shape once. Null: through the group, as a model does.
  void Enqueue(std::span<const Shape> shapes, const ExchangeFaults* faults) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      DeviceArray<uint32_t>& columns = i % 2 == 0 ? even_columns_ : odd_columns_;
      const auto [num_rows, row_words] = shapes[i];
      const testing::ExchangeRound round = {.round = round_.data(),
                                            .columns = columns.data(),
                                            .output = output_.data(),
                                            .num_rows = num_rows,
                                            .row_words = row_words,
                                            .rank = rank_,
                                            .degree = group_.degree(),
                                            .num_wrong = num_wrong_.data()};
      Check(testing::FillColumns(stream_, round));
      const DeviceColumns params = {.columns = columns.data(),
                                    .output = output_.data(),
                                    .num_rows = num_rows,
                                    .row_bytes = row_words * 4};
      if (faults == nullptr) {
        Check(group_.AllGather(rank_, stream_, params));
      } else {
        Check(kernels::ExchangeWithFaults(stream_,
                                          {.group = group_.View(rank_),
                                           .columns = params.columns,
                                           .output = params.output,
                                           .num_rows = params.num_rows,
                                           .row_bytes = params.row_bytes},
                                          *faults));
      }
      Check(testing::CheckOutput(stream_, round));
    }
  }
  void Capture(std::span<const Shape> shapes, const ExchangeFaults* faults) {
    Expect(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal));
    Enqueue(shapes, faults);
    cudaGraph_t graph = nullptr;
    Expect(cudaStreamEndCapture(stream_.handle, &graph));
    Expect(cudaGraphInstantiate(&graph_, graph, 0));
    Expect(cudaGraphDestroy(graph));
    Expect(cudaGraphUpload(graph_, stream_.handle));
  }
  void Replay() { Expect(cudaGraphLaunch(graph_, stream_.handle)); }

  // Fills the memory of exchanges with words of `stale_tag`, as if `last_tag` were the latest call.
  void Plant(uint32_t stale_tag, uint32_t last_tag) {
    const auto num_words = static_cast<size_t>(group_.memory_bytes()) / sizeof(uint64_t);
    std::vector<uint64_t> words(num_words, uint64_t{stale_tag} << 32 | 0xBADBAD);
    std::fill_n(words.begin(), ExchangeMemory::kHeaderBytes / sizeof(uint64_t), 0);
    words[0] = last_tag;
    Expect(cudaMemcpy(header(), words.data(), words.size() * sizeof(uint64_t),
                      cudaMemcpyHostToDevice));
    Expect(cudaDeviceSynchronize());
  }
  uint32_t last_tag() {
    uint32_t tag = 0;
    Expect(cudaMemcpy(&tag, header(), sizeof(tag), cudaMemcpyDeviceToHost));
    return tag;
  }
  // Of what the peer pushes in the call with this tag.
  uint64_t* FirstWordFrom(int peer, uint32_t tag) const {
    const ExchangeMemory memory(group_.degree(), kMaxPushBytes);
    return reinterpret_cast<uint64_t*>(static_cast<std::byte*>(header()) +
                                       memory.Words(tag % 2, peer));
  }
  cudaError_t Synchronize() { return cudaStreamSynchronize(stream_.handle); }
  // As a worker does after an error of its device.
  void CheckDevice() { Check(kernels::CudaStatus(Synchronize(), "a rank")); }
  uint32_t num_rounds() const { return round_.Read().front(); }
  uint64_t num_wrong() const { return num_wrong_.Read().front(); }
  void ExpectGuardsIntact() const { output_.ExpectGuardsIntact(); }
  const kernels::CudaStream& stream() const { return stream_; }
  uint32_t* columns() { return even_columns_.data(); }
  uint32_t* output() { return output_.data(); }

 private:
  void Check(const absl::Status& status) const {
    LOCKSTEP_CHECK(status.ok(), "{}: {}", Message(status), group_.HangReport());
  }
  void* header() const { return group_.View(rank_).memories[rank_]; }

  DeviceGroup& group_;
  const int rank_;
  const int device_;
  const bool is_current_;  // the members below lie on the device
  DeviceArray<uint32_t> even_columns_{kMostWords};
  DeviceArray<uint32_t> odd_columns_{kMostWords};
  DeviceArray<uint32_t> output_{kMostWords * kernels::kMaxExchangeRanks};
  DeviceArray<uint32_t> round_{1};
  DeviceArray<uint64_t> num_wrong_{1};
  kernels::CudaStream stream_;
  cudaGraphExec_t graph_ = nullptr;
};

// A group whose ranks run, each on its thread.
struct Ranks {
  explicit Ranks(int degree, std::chrono::nanoseconds hung_after = std::chrono::seconds(3))
      : team(degree) {
    const std::vector<int> devices = testing::RankDevices(degree);
    auto created = DeviceGroup::Create(
        {.devices = devices, .max_push_bytes = kMaxPushBytes, .hung_after = hung_after});
    LOCKSTEP_CHECK(created.ok(), "{}", Message(created.status()));
    group = *std::move(created);
    for (int rank = 0; rank < degree; ++rank) {
      ranks.push_back(std::make_unique<Rank>(*group, rank, devices[static_cast<size_t>(rank)]));
    }
    Run([](Rank& rank) { rank.MakeCurrent(); });
  }
  template <typename Body>
  void Run(Body body) {
    team.Run([&](int rank) { body(*ranks[static_cast<size_t>(rank)]); }, kLong);
  }
  void ExpectAllRight(uint64_t num_rounds) {
    for (const std::unique_ptr<Rank>& rank : ranks) {
      rank->MakeCurrent();
      ASSERT_EQ(rank->Synchronize(), cudaSuccess) << group->HangReport();
      EXPECT_EQ(rank->num_rounds(), num_rounds);
      EXPECT_EQ(rank->num_wrong(), 0u);
      rank->ExpectGuardsIntact();
    }
  }

  RankTeam team;
  std::unique_ptr<DeviceGroup> group;
  std::vector<std::unique_ptr<Rank>> ranks;
};

class DeviceGroupCudaTest : public testing::CudaTest, public ::testing::WithParamInterface<int> {};

TEST_P(DeviceGroupCudaTest, EveryRankHasTheColumnsOfAll) {
  Ranks ranks(GetParam());
  constexpr int kTurns = 20;
  ranks.Run([](Rank& rank) {
    for (int i = 0; i < kTurns; ++i) rank.Enqueue(kShapes, /*faults=*/nullptr);
  });
  ranks.ExpectAllRight(kTurns * kShapes.size());
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
  constexpr uint32_t kTurns = 12;
  for (const std::unique_ptr<Rank>& rank : ranks.ranks) {
    rank->Plant(kStaleTag, ExchangeMemory::kLastTag - kLeft);
  }
  ranks.Run([&](Rank& rank) {
    for (uint32_t i = 0; i < kTurns; ++i) rank.Enqueue(kShapes, &delays);
  });
  ranks.ExpectAllRight(kTurns * kShapes.size());
  for (const std::unique_ptr<Rank>& rank : ranks.ranks) {
    EXPECT_EQ(rank->last_tag(), kTurns * kShapes.size() - kLeft);
  }
}

constexpr int kNormTurns = 12;

// What one rank has for norms with gathered columns, each turn with other columns. The norms work
// in place, as in a model.
struct GatheredNorms {
  GatheredNorms(int64_t rows, int64_t size, int rank, int degree)
      : num_rows(rows), row_size(size), num_ranks(static_cast<size_t>(degree)) {
    // The same residuals on every rank, and columns that tell ranks and turns apart.
    const std::vector<BFloat16> residuals = Random(count * kNormTurns, 1);
    for (DeviceArray<BFloat16>& array : residual) array.Write(residuals);
    columns.Write(Random(columns.size(), 2 + static_cast<uint32_t>(rank)));
    std::vector<float> weights(static_cast<size_t>(size));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 1 + 0.01f * static_cast<float>(i % 97);
    weight.Write(weights);
  }
  static std::vector<BFloat16> Random(size_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> value;
    std::vector<BFloat16> values(size);
    for (BFloat16& element : values) element = kernels::ToBFloat16(value(random));
    return values;
  }
  const BFloat16* Columns(int turn) const {
    return columns.data() + static_cast<size_t>(turn) * count / num_ranks;
  }
  // Of the results `side`.
  kernels::RmsNormParams Params(size_t side, int turn) const {
    const size_t begin = static_cast<size_t>(turn) * count;
    return {.input = residual[side].data() + begin,
            .delta = whole.data(),
            .residual_out = residual[side].data() + begin,
            .weight = weight.data(),
            .output = normed[side].data() + begin,
            .num_rows = num_rows,
            .size = row_size,
            .eps = 1e-6f};
  }

  const int64_t num_rows;
  const int64_t row_size;
  const size_t num_ranks;
  const size_t count = static_cast<size_t>(num_rows * row_size);
  DeviceArray<BFloat16> columns{count * kNormTurns / num_ranks};
  DeviceArray<BFloat16> whole{count};
  DeviceArray<float> weight{static_cast<size_t>(row_size)};
  // Of one kernel, and of an exchange and a norm: [kNormTurns, num_rows, row_size].
  DeviceArray<BFloat16> residual[2] = {DeviceArray<BFloat16>(count * kNormTurns),
                                       DeviceArray<BFloat16>(count* kNormTurns)};
  DeviceArray<BFloat16> normed[2] = {DeviceArray<BFloat16>(count * kNormTurns),
                                     DeviceArray<BFloat16>(count* kNormTurns)};
};

std::vector<uint16_t> BitsOf(const DeviceArray<BFloat16>& array) {
  std::vector<uint16_t> bits;
  for (const BFloat16 value : array.Read()) bits.push_back(value.bits);
  return bits;
}

TEST_P(DeviceGroupCudaTest, ANormThatGathersGivesTheBitsOfExchangeAndNorm) {
  const int degree = GetParam();
  Ranks ranks(degree);
  // Kept to the end: columns must not come again at the address of the call before.
  std::vector<std::unique_ptr<GatheredNorms>> all;
  for (const auto& [num_rows, size] :
       {std::pair<int64_t, int64_t>{1, 256}, {1, 4096}, {3, 8192}, {5, 2560}, {64, 256}}) {
    SCOPED_TRACE(::testing::Message() << num_rows << " rows of " << size);
    std::vector<GatheredNorms*> norms;
    for (int rank = 0; rank < degree; ++rank) {
      ranks.ranks[static_cast<size_t>(rank)]->MakeCurrent();
      all.push_back(std::make_unique<GatheredNorms>(num_rows, size, rank, degree));
      norms.push_back(all.back().get());
    }
    const auto run = [&](int rank) {
      const kernels::CudaStream& stream = ranks.ranks[static_cast<size_t>(rank)]->stream();
      const GatheredNorms& norm = *norms[static_cast<size_t>(rank)];
      for (int turn = 0; turn < kNormTurns; ++turn) {
        const auto fused =
            ranks.group->GatherRmsNorm(rank, stream, norm.Columns(turn), norm.Params(0, turn));
        Expect(fused.status());
        LOCKSTEP_CHECK(*fused, "there is a kernel for these sizes");
      }
      for (int turn = 0; turn < kNormTurns; ++turn) {
        Expect(ranks.group->AllGather(
            rank, stream,
            {.columns = norm.Columns(turn),
             .output = norm.whole.data(),
             .num_rows = num_rows,
             .row_bytes = size / degree * static_cast<int64_t>(sizeof(BFloat16))}));
        Expect(kernels::RmsNorm(stream, norm.Params(1, turn)));
      }
      Expect(kernels::CudaStatus(cudaStreamSynchronize(stream.handle), "a rank"));
    };
    ranks.team.Run(run, kLong);
    for (int rank = 0; rank < degree; ++rank) {
      Rank& self = *ranks.ranks[static_cast<size_t>(rank)];
      self.MakeCurrent();
      ASSERT_EQ(self.Synchronize(), cudaSuccess) << ranks.group->HangReport();
      const GatheredNorms& norm = *norms[static_cast<size_t>(rank)];
      EXPECT_EQ(BitsOf(norm.residual[0]), BitsOf(norm.residual[1]));
      EXPECT_EQ(BitsOf(norm.normed[0]), BitsOf(norm.normed[1]));
      EXPECT_EQ(BitsOf(norm.normed[0]), BitsOf(norms[0]->normed[1])) << "ranks differ";
      norm.residual[0].ExpectGuardsIntact();
      norm.normed[0].ExpectGuardsIntact();
    }
  }
}

// More rows than blocks that surely run at once; more bytes than a rank has room for.
TEST_P(DeviceGroupCudaTest, ANormOfManyRowsOrBytesDoesNotGather) {
  Ranks ranks(GetParam());
  for (const auto& [num_rows, size] :
       {std::pair<int64_t, int64_t>{kernels::kMaxGatheredNormRows + 1, 256},
        {kernels::kMaxGatheredNormRows, 8192}}) {
    const kernels::RmsNormParams norm = {.num_rows = num_rows, .size = size, .eps = 1e-6f};
    const auto fused =
        ranks.group->GatherRmsNorm(0, ranks.ranks[0]->stream(), /*columns=*/nullptr, norm);
    ASSERT_TRUE(fused.ok()) << fused.status();
    EXPECT_FALSE(*fused) << num_rows << " rows of " << size;
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
  // Copies wait for no kernel; one that reads waits for those before it.
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

// A fast rank would write over columns that a slow one still reads.
void LetColumnsNotTakeTurns() {
  Ranks ranks(2);
  Rank& rank = *ranks.ranks[0];
  rank.MakeCurrent();
  const DeviceColumns params = {
      .columns = rank.columns(), .output = rank.output(), .num_rows = 1, .row_bytes = 16};
  Expect(ranks.group->AllGather(0, rank.stream(), params));
  Expect(ranks.group->AllGather(0, rank.stream(), params));
}

TEST_F(DeviceGroupCudaDeathTest, ColumnsThatDoNotTakeTurnsEndTheProcess) {
  EXPECT_DEATH(LetColumnsNotTakeTurns(), "two exchanges in a row have the same columns");
}

TEST(DeviceGroupTest, AGroupHasTwoToEightRanks) {
  for (const size_t degree : {0, 1, 9}) {
    const auto group = DeviceGroup::Create({.devices = std::vector<int>(degree, 0)});
    EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::worker
