// A model whose quantised matrices stay packed, in a storage that is made up here, against the same
// model in bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/weights/quantized_folder.h"
#include "tests/worker/model/weights/swapped_weights.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelOptions Options(WeightForm form) {
  return {.num_kv_blocks = 4, .max_step_tokens = 64, .num_threads = 2, .weight_form = form};
}

std::unique_ptr<ForwardModel> Load(const std::string& path, const ModelOptions& options) {
  auto model = LoadCpuModel(path, options);
  EXPECT_THAT(model, IsOk());
  return *std::move(model);
}

std::unique_ptr<ForwardModel> LoadConverted(const std::string& path) {
  return Load(path, Options(WeightForm::kBFloat16));
}

// `make`: null for the storage of the CPU.
std::unique_ptr<ForwardModel> LoadPacked(const std::string& path, const MakePackedWeights& make,
                                         uint32_t degree = 1) {
  ModelOptions options = Options(WeightForm::kPacked);
  options.make_packed_weights = make;
  options.tensor_parallel = degree;
  return Load(path, options);
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
  const auto converted = LoadConverted(path_);
  EXPECT_EQ(converted->info().weights_dtype, "bf16");
  const std::vector<float> expected = Logits(*converted, 18);
  for (const uint32_t degree : {1u, 2u}) {
    for (const bool swaps : {false, true}) {
      SCOPED_TRACE(::testing::Message() << degree << " ranks" << (swaps ? ", swapped" : ""));
      const MakePackedWeights make = swaps ? SwappedWeights::Create : MakePackedWeights();
      const auto packed = LoadPacked(path_, make, degree);
      EXPECT_TRUE(IsSameBits(Logits(*packed, 18), expected));
      EXPECT_TRUE(IsSameBits(Logits(*packed, 1), expected));
      EXPECT_EQ(packed->info().numerics_id, converted->info().numerics_id);
      const std::string& dtype = packed->info().weights_dtype;
      EXPECT_EQ(dtype.find("swapped bf16") != std::string::npos, swaps) << dtype;
      // The CPU has no storage for groups that are not contiguous.
      const std::string& name = GetParam().name;
      const bool is_permuted = name == "pack4_order" || name.starts_with("gptq");
      EXPECT_EQ(dtype != "bf16", swaps || !is_permuted) << dtype;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedLayoutTest, ::testing::ValuesIn(AllWeightLayouts()),
                         [](const auto& info) { return info.param.name; });

// q, k and v have biases, and ranks have a part of each.
TEST(PackedCodesTest, BiasesStayWithTheirOutputs) {
  ModelOptions options = Options(WeightForm::kBFloat16);
  options.random_weights = true;
  options.random_codes = FindRandomCodes("int4-g32");
  const char* const path = "tests/golden/tiny-qwen2";
  const std::vector<float> expected = Logits(*Load(path, options), 18);
  options.weight_form = WeightForm::kPacked;
  for (const uint32_t degree : {1u, 2u}) {
    options.tensor_parallel = degree;
    const auto packed = Load(path, options);
    EXPECT_EQ(packed->info().weights_dtype, "bf16+int4 g32");
    EXPECT_TRUE(IsSameBits(Logits(*packed, 18), expected)) << degree;
    EXPECT_TRUE(IsSameBits(Logits(*packed, 5), expected)) << degree;
  }
}

absl::Status OpenForFp8Activations(const std::string& path, ModelOptions options) {
  options.activation_form = ActivationForm::kFp8;
  const absl::StatusOr<ModelDescription> description = DescribeModel(path, options, "a device");
  EXPECT_THAT(description, IsOk());
  return OpenWeights(path, *description, options).status();
}

TEST_P(PackedLayoutTest, Fp8ActivationsNeedFp8Weights) {
  const absl::Status status = OpenForFp8Activations(path_, Options(WeightForm::kAuto));
  const bool has_fp8 = GetParam().name.find("fp8") != std::string::npos;
  if (has_fp8) {
    EXPECT_THAT(status, IsOk());
  } else {
    EXPECT_THAT(status, HasError(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr(path_), HasSubstr("needs weights in FP8"),
                                       HasSubstr("module"))));
  }
}

TEST(Fp8ActivationsTest, AreRefusedWhereTheyCannotBe) {
  constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;
  const char* const path = "tests/golden/tiny-llama";
  EXPECT_THAT(OpenForFp8Activations(path, Options(WeightForm::kAuto)),
              HasError(kFailed, AllOf(HasSubstr(path), HasSubstr("but the model has BF16"))));
  EXPECT_THAT(OpenForFp8Activations(path, Options(WeightForm::kBFloat16)),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("--weights is bf16")));
  ModelOptions options = Options(WeightForm::kAuto);
  options.activation_form = ActivationForm::kFp8;
  EXPECT_THAT(LoadCpuModel(path, options),
              HasError(kFailed, AllOf(HasSubstr(path), HasSubstr("needs a GPU"))));
}

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
  const auto mixed = LoadPacked(path_, every_other);
  EXPECT_GT(num_asked, 2);
  EXPECT_EQ(mixed->info().weights_dtype, "bf16+swapped bf16");
  EXPECT_TRUE(IsSameBits(Logits(*mixed, 5), Logits(*LoadConverted(path_), 18)));
}

TEST_F(PackedWeightsTest, AnyOtherErrorOfTheStorageStopsTheLoad) {
  const auto fails = [](std::span<const kernels::QuantizedMatrix>)
      -> absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> {
    return ResourceExhausted("no memory");
  };
  ModelOptions options = Options(WeightForm::kPacked);
  options.make_packed_weights = fails;
  const auto model = LoadCpuModel(path_, options);
  EXPECT_THAT(model, HasError(absl::StatusCode::kResourceExhausted,
                              AllOf(HasSubstr(path_), HasSubstr("no memory"))));
}

TEST_F(PackedWeightsTest, MemoryCountsWhatIsPacked) {
  const uint64_t converted = LoadConverted(path_)->info().memory.weights_bytes;
  // Swapped bf16 takes the same bytes, but panels are padded to whole ones.
  const uint64_t swapped = LoadPacked(path_, SwappedWeights::Create)->info().memory.weights_bytes;
  EXPECT_GT(swapped, converted * 9 / 10);
  EXPECT_LE(swapped, converted);
  EXPECT_LT(LoadPacked(path_, nullptr)->info().memory.weights_bytes, converted * 9 / 10);
}

}  // namespace
}  // namespace lockstep::worker
