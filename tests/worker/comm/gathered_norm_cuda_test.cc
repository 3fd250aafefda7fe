// Exchange, sum and norm as one kernel.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/exchange/gathered_rms_norm.h"
#include "kernels/norm/rms_norm.h"
#include "tests/support/cuda_test.h"
#include "tests/worker/comm/exchange_ranks.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

class GatheredNormCudaTest : public testing::CudaTest, public ::testing::WithParamInterface<int> {};

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

TEST_P(GatheredNormCudaTest, ANormThatGathersGivesTheBitsOfExchangeAndNorm) {
  const int degree = GetParam();
  Ranks ranks(degree);
  for (const auto& [num_rows, size] : {std::pair<int64_t, int64_t>{1, 256},
                                       {1, 4096},
                                       {3, 8192},
                                       {5, 2560},
                                       {MaxGatheredNormRows(ranks.group->View(0)), 256}}) {
    SCOPED_TRACE(::testing::Message() << num_rows << " rows of " << size);
    std::vector<std::unique_ptr<GatheredNorms>> norms;
    for (int rank = 0; rank < degree; ++rank) {
      ranks.ranks[static_cast<size_t>(rank)]->MakeCurrent();
      norms.push_back(std::make_unique<GatheredNorms>(num_rows, size, rank, degree));
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
TEST_P(GatheredNormCudaTest, ANormOfManyRowsOrBytesDoesNotGather) {
  Ranks ranks(GetParam());
  const int64_t max_rows = MaxGatheredNormRows(ranks.group->View(0));
  for (const auto& [num_rows, size] :
       {std::pair<int64_t, int64_t>{max_rows + 1, 256}, {max_rows, 8192}}) {
    const kernels::RmsNormParams norm = {.num_rows = num_rows, .size = size, .eps = 1e-6f};
    const auto fused =
        ranks.group->GatherRmsNorm(0, ranks.ranks[0]->stream(), /*columns=*/nullptr, norm);
    ASSERT_TRUE(fused.ok()) << fused.status();
    EXPECT_FALSE(*fused) << num_rows << " rows of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, GatheredNormCudaTest, ::testing::Values(2, 4));

}  // namespace
}  // namespace lockstep::worker
