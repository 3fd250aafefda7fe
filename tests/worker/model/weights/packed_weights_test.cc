// A model whose quantised matrices stay packed, in a storage that is made up here, against the same
// model in bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "tests/worker/model/weights/quantized_folder.h"
#include "tests/worker/model/weights/swapped_weights.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<ForwardModel> Load(const std::string& path, const MakePackedWeights& make,
                                   uint32_t degree = 1) {
  auto model = LoadCpuModel(path, {.num_kv_blocks = 4,
                                   .max_step_tokens = 64,
                                   .num_threads = 2,
                                   .tensor_parallel = degree,
                                   .make_packed_weights = make});
  EXPECT_THAT(model, IsOk());
  return *std::move(model);
}

std::vector<float> Logits(ForwardModel& model, uint32_t step_length) {
  const std::vector<TokenId> tokens = {3,  14, 15, 92,  65, 35,  89,  79,  323,
                                       84, 62, 64, 338, 32, 379, 280, 288, 4};
  return SequenceRunner(model, tokens).RunInStepsOf(step_length);
}

class PackedLayoutTest : public ::testing::TestWithParam<WeightLayoutCase> {
 protected:
  const QuantizedFolder folder_ = QuantizedFolder(GetParam());
  const std::string path_ = folder_.Write();
};

TEST_P(PackedLayoutTest, EqualsTheConvertedModel) {
  for (const uint32_t degree : {1u, 2u}) {
    SCOPED_TRACE(degree);
    const auto packed = Load(path_, SwappedWeights::Create, degree);
    const auto converted = Load(path_, nullptr);
    const std::vector<float> expected = Logits(*converted, 18);
    EXPECT_TRUE(IsSameBits(Logits(*packed, 18), expected));
    EXPECT_TRUE(IsSameBits(Logits(*packed, 1), expected));
    EXPECT_EQ(packed->info().numerics_id, converted->info().numerics_id);
    EXPECT_THAT(packed->info().weights_dtype, HasSubstr("swapped bf16"));
    EXPECT_EQ(converted->info().weights_dtype, "bf16");
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedLayoutTest, ::testing::ValuesIn(AllWeightLayouts()),
                         [](const auto& info) { return info.param.name; });

class PackedWeightsTest : public ::testing::Test {
 protected:
  const QuantizedFolder folder_ = QuantizedFolder(AllWeightLayouts().front());
  const std::string path_ = folder_.Write();
};

TEST_F(PackedWeightsTest, WhatTheStorageRefusesBecomesBf16) {
  std::atomic<int> num_asked = 0;
  const auto every_other = [&num_asked](std::span<const kernels::QuantizedMatrix> parts)
      -> absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> {
    if (num_asked++ % 2 == 0) return InvalidArgument("refused");
    return SwappedWeights::Create(parts);
  };
  const auto mixed = Load(path_, every_other);
  EXPECT_GT(num_asked, 2);
  EXPECT_EQ(mixed->info().weights_dtype, "bf16+swapped bf16");
  const auto converted = Load(path_, nullptr);
  EXPECT_TRUE(IsSameBits(Logits(*mixed, 5), Logits(*converted, 18)));
}

TEST_F(PackedWeightsTest, AnyOtherErrorOfTheStorageStopsTheLoad) {
  const auto fails = [](std::span<const kernels::QuantizedMatrix>)
      -> absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> {
    return ResourceExhausted("no memory");
  };
  const auto model = LoadCpuModel(path_, {.num_kv_blocks = 4, .make_packed_weights = fails});
  EXPECT_THAT(model, HasError(absl::StatusCode::kResourceExhausted,
                              AllOf(HasSubstr(path_), HasSubstr("no memory"))));
}

TEST_F(PackedWeightsTest, MemoryCountsWhatIsPacked) {
  const auto packed = Load(path_, SwappedWeights::Create);
  const auto converted = Load(path_, nullptr);
  // Swapped bf16 takes the same bytes, but panels are padded to whole ones.
  EXPECT_GT(packed->info().memory.weights_bytes, converted->info().memory.weights_bytes * 9 / 10);
  EXPECT_LE(packed->info().memory.weights_bytes, converted->info().memory.weights_bytes);
}

// A GGUF file of another program: its rows of q and k are in another order, and its types differ
// from tensor to tensor.
TEST(PackedGgufTest, SmolLm2EqualsTheConvertedModel) {
  if (!std::filesystem::exists(kSmolLm2Path)) {
    GTEST_SKIP() << "no model file: skipped (" << kSmolLm2Path
                 << " is missing, deploy/fetch-model fetches it)";
  }
  const auto packed = Load(kSmolLm2Path, SwappedWeights::Create);
  const auto converted = Load(kSmolLm2Path, nullptr);
  EXPECT_TRUE(IsSameBits(Logits(*packed, 18), Logits(*converted, 18)));
  EXPECT_EQ(packed->info().numerics_id, converted->info().numerics_id);
}

}  // namespace
}  // namespace lockstep::worker
