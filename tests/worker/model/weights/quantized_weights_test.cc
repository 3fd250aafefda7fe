// Folders with quantised weights, whose matrices stay packed or become bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/weights/quantized_folder.h"
#include "worker/cpu/load_model.h"
#include "worker/model/weights/weight_source.h"

namespace lockstep::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr char kGate[] = "model.layers.1.mlp.gate_proj";

absl::StatusOr<std::unique_ptr<ForwardModel>> Load(const std::string& path, uint32_t degree = 1) {
  return LoadCpuModel(
      path,
      {.num_kv_blocks = 4, .max_step_tokens = 64, .num_threads = 2, .tensor_parallel = degree});
}

absl::StatusOr<WeightSource> Open(const std::string& path) {
  return WeightSource::Open(path, *FindModelFamily("llama"));
}

WeightLayoutCase LayoutNamed(std::string_view name) {
  for (WeightLayoutCase& layout : AllWeightLayouts()) {
    if (layout.name == name) return std::move(layout);
  }
  ADD_FAILURE() << name;
  return {};
}

std::vector<float> Logits(ForwardModel& model) {
  const std::vector<TokenId> tokens = {3,  14, 15, 92,  65, 35,  89,  79,  323,
                                       84, 62, 64, 338, 32, 379, 280, 288, 4};
  return SequenceRunner(model, tokens).RunInStepsOf(18);
}

void ExpectSameModel(const QuantizedFolder& folder, uint32_t degree) {
  const auto quantized = Load(folder.Write(), degree);
  const auto converted = Load(folder.WriteConverted());
  ASSERT_THAT(quantized, IsOk());
  ASSERT_THAT(converted, IsOk());
  const std::vector<float> expected = Logits(**converted);
  ASSERT_TRUE(IsFinite(expected));
  EXPECT_TRUE(IsSameBits(Logits(**quantized), expected));
  const ForwardModelInfo& info = (*quantized)->info();
  EXPECT_EQ((*converted)->info().weights_dtype, "bf16");
  EXPECT_EQ(info.model_fingerprint, (*converted)->info().model_fingerprint);
  EXPECT_NE(info.weights_fingerprint, (*converted)->info().weights_fingerprint);
}

class QuantizedLayoutTest : public ::testing::TestWithParam<WeightLayoutCase> {};

TEST_P(QuantizedLayoutTest, LogitsAreThoseOfTheConvertedModel) {
  ExpectSameModel(QuantizedFolder(GetParam()), /*degree=*/1);
}

TEST_P(QuantizedLayoutTest, RanksLoadTheirShare) {
  ExpectSameModel(QuantizedFolder(GetParam()), /*degree=*/2);
}

// Other values than those of the converted folder would not be seen in logits that are all alike.
TEST_P(QuantizedLayoutTest, EveryTensorHasTheConvertedBits) {
  const QuantizedFolder folder(GetParam());
  const auto quantized = Open(folder.Write());
  const auto converted = Open(folder.WriteConverted());
  ASSERT_THAT(quantized, IsOk());
  ASSERT_THAT(converted, IsOk());
  ASSERT_EQ(quantized->tensors().size(), converted->tensors().size());
  for (const SourceTensor& expected : converted->tensors()) {
    const SourceTensor* const tensor = quantized->Find(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    ASSERT_EQ(tensor->shape, expected.shape) << expected.name;
    const auto columns = static_cast<int64_t>(expected.shape.back());
    const size_t num_elements = expected.data.size() / sizeof(kernels::BFloat16);
    std::vector<float> values(num_elements), expected_values(num_elements);
    ASSERT_THAT(ReadRows(*tensor, 0, columns, values), IsOk());
    ASSERT_THAT(ReadRows(expected, 0, columns, expected_values), IsOk());
    EXPECT_TRUE(IsSameBits(values, expected_values)) << expected.name;
    std::vector<kernels::BFloat16> copied(num_elements), expected_copy(num_elements);
    ASSERT_THAT(CopyRows(*tensor, 0, columns, copied), IsOk());
    ASSERT_THAT(CopyRows(expected, 0, columns, expected_copy), IsOk());
    EXPECT_TRUE(IsSameBits(copied, expected_copy)) << expected.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedLayoutTest, ::testing::ValuesIn(AllWeightLayouts()),
                         [](const auto& info) { return info.param.name; });

TEST(QuantizedWeightsTest, IgnoredModulesStayAsTheyAre) {
  QuantizedFolder folder(LayoutNamed("pack4"),
                         [](std::string_view module) { return module.ends_with("down_proj"); });
  folder.quantization_config["ignore"] = {"lm_head", "re:.*down_proj"};
  ExpectSameModel(folder, 1);
  const auto source = Open(folder.Write());
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ(source->summary(), "int4, groups of 16 (compressed-tensors): 12 modules");
  EXPECT_THAT(source->warning(), IsEmpty());
}

TEST(QuantizedWeightsTest, GroupsOfModulesHaveTheirOwnLayouts) {
  QuantizedFolder folder(LayoutNamed("pack4"));
  const QuantizedFolder other(LayoutNamed("pack8"));
  for (const char* suffix : {"weight_packed", "weight_scale", "weight_shape"}) {
    const std::string name = std::string(kGate) + "." + suffix;
    folder.tensors.at(name) = other.tensors.at(name);
  }
  folder.converted.at(std::string(kGate) + ".weight") =
      other.converted.at(std::string(kGate) + ".weight");
  auto& groups = folder.quantization_config["config_groups"];
  groups["group_1"] = other.quantization_config["config_groups"]["group_0"];
  groups["group_1"]["targets"] = {kGate};
  ExpectSameModel(folder, 1);
  EXPECT_EQ(Open(folder.Write())->summary(),
            "int4, groups of 16 (compressed-tensors): 13 modules; "
            "int8, a scale a row (compressed-tensors): 1 module");
}

TEST(QuantizedWeightsTest, TheMatrixOfLogitsMayBeQuantised) {
  WeightLayoutCase layout = LayoutNamed("gptq_v1");
  layout.lm_head = true;
  layout.quantization_config["lm_head"] = true;
  const QuantizedFolder folder(layout);
  EXPECT_FALSE(folder.tensors.contains("lm_head.weight"));
  ExpectSameModel(folder, 1);
  ExpectSameModel(folder, 2);
}

// As AutoGPTQ writes modules that have no bias.
TEST(QuantizedWeightsTest, ABiasOfZerosIsNoBias) {
  QuantizedFolder folder(LayoutNamed("gptq_v1"));
  auto& bias = folder.tensors[std::string(kGate) + ".bias"];
  bias = {SafetensorsDtype::kF16, {176}, std::vector<std::byte>(352)};
  ExpectSameModel(folder, 1);
  bias.bytes[7] = std::byte{1};
  EXPECT_THAT(
      Load(folder.Write()),
      HasError(kInvalid,
               HasSubstr("tensor model.layers.1.mlp.gate_proj.bias is not part of the model")));
}

TEST(QuantizedWeightsTest, ScalesOfActivationsAndOfTheCacheAreNotUsed) {
  QuantizedFolder folder(LayoutNamed("fp8_rows"));
  const QuantizedFolder::Tensor scale = {SafetensorsDtype::kF32, {1}, std::vector<std::byte>(4)};
  folder.tensors[std::string(kGate) + ".input_scale"] = scale;
  folder.tensors["model.layers.0.self_attn.k_scale"] = scale;
  folder.tensors["model.layers.0.self_attn.v_proj.v_scale"] = scale;
  folder.quantization_config["kv_cache_scheme"] = {
      {"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
  ExpectSameModel(folder, 1);
  EXPECT_EQ(Open(folder.Write())->warning(),
            "activations stay in bf16, and the KV cache follows --kv-dtype: not used are 1 scales "
            "of activations, 2 of attention, and the scheme of the KV cache");
}

TEST(QuantizedWeightsTest, TheFingerprintIsOfTheStoredBytesAndTheirMeaning) {
  QuantizedFolder folder(LayoutNamed("gptq_v1"));
  const uint64_t original = Open(folder.Write())->Fingerprint();
  EXPECT_EQ(Open(folder.Write())->Fingerprint(), original);
  folder.quantization_config["checkpoint_format"] = "gptq_v2";
  EXPECT_NE(Open(folder.Write())->Fingerprint(), original);
  folder.quantization_config["checkpoint_format"] = "gptq";
  folder.tensors.at(std::string(kGate) + ".qweight").bytes[9] ^= std::byte{1};
  EXPECT_NE(Open(folder.Write())->Fingerprint(), original);
}

// More tensors at once than stay decoded.
TEST(QuantizedWeightsTest, ManyThreadsMayReadAnyRows) {
  const QuantizedFolder folder(LayoutNamed("gptq_v1"));
  const auto quantized = Open(folder.Write());
  const auto converted = Open(folder.WriteConverted());
  ASSERT_THAT(quantized, IsOk());
  ASSERT_THAT(converted, IsOk());
  constexpr size_t kThreads = 4;
  std::vector<int> num_wrong(kThreads);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (int i = 0; i < 100; ++i) {
        const auto tensors = converted->tensors();
        const SourceTensor& expected = tensors[random() % tensors.size()];
        if (expected.shape.size() != 2) continue;
        const auto row = static_cast<int64_t>(random() % expected.shape[0]);
        std::vector<float> values(expected.shape[1]), wanted(expected.shape[1]);
        const auto columns = static_cast<int64_t>(expected.shape[1]);
        const SourceTensor& tensor = *quantized->Find(expected.name);
        const bool is_same = ReadRows(tensor, row, columns, values).ok() &&
                             ReadRows(expected, row, columns, wanted).ok() && values == wanted;
        if (!is_same) ++num_wrong[thread];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<int>(kThreads));
}

struct BadFolder {
  std::string name;
  std::string_view layout;
  std::function<void(QuantizedFolder&)> spoil;
  std::vector<std::string> says;
};

QuantizedFolder::Tensor& PartOf(QuantizedFolder& folder, const std::string& suffix) {
  return folder.tensors.at(std::string(kGate) + "." + suffix);
}

const BadFolder kBadFolders[] = {
    {"MissingScale",
     "pack4",
     [](QuantizedFolder& f) { f.tensors.erase(std::string(kGate) + ".weight_scale"); },
     {"tensor model.layers.1.mlp.gate_proj.weight_scale is missing"}},
    {"MissingCodes",
     "gptq_v1",
     [](QuantizedFolder& f) { f.tensors.erase(std::string(kGate) + ".qweight"); },
     {"tensor model.layers.1.mlp.gate_proj.qweight is missing"}},
    {"MissingOrder",
     "gptq_v1",
     [](QuantizedFolder& f) { f.tensors.erase(std::string(kGate) + ".g_idx"); },
     {"tensor model.layers.1.mlp.gate_proj.g_idx is missing"}},
    {"MissingZeros",
     "pack4_zeros",
     [](QuantizedFolder& f) { f.tensors.erase(std::string(kGate) + ".weight_zero_point"); },
     {"tensor model.layers.1.mlp.gate_proj.weight_zero_point is missing"}},
    {"MissingModule",
     "awq",
     [](QuantizedFolder& f) {
       for (const char* suffix : {"qweight", "qzeros", "scales"}) {
         f.tensors.erase(std::string(kGate) + "." + suffix);
       }
     },
     {"tensor model.layers.1.mlp.gate_proj.weight of shape [176, 64] is missing"}},
    {"ScaleShape",
     "pack4",
     [](QuantizedFolder& f) { PartOf(f, "weight_scale").shape = {88, 8}; },
     {"tensor model.layers.1.mlp.gate_proj.weight_scale", "[88, 8]"}},
    {"BlockScaleShape",
     "fp8_blocks",
     [](QuantizedFolder& f) { f.quantization_config["weight_block_size"] = {16, 16}; },
     {".weight_scale_inv: shape is ["}},
    {"NaNCode",
     "fp8_rows",
     [](QuantizedFolder& f) { PartOf(f, "weight").bytes[65] = std::byte{0x7F}; },
     {"tensor model.layers.1.mlp.gate_proj.weight: element [1, 1] is NaN"}},
    {"NaNScale",
     "fp8_rows",
     [](QuantizedFolder& f) {
       std::fill_n(PartOf(f, "weight_scale").bytes.begin(), 4, std::byte{0xFF});
     },
     {"tensor model.layers.1.mlp.gate_proj.weight_scale: element", "expected a finite scale"}},
    {"GroupOutOfRange",
     "gptq_v2",
     [](QuantizedFolder& f) { PartOf(f, "g_idx").bytes[0] = std::byte{99}; },
     {"tensor model.layers.1.mlp.gate_proj.g_idx: element [0] is 99"}},
    {"CodesOfAnotherType",
     "awq",
     [](QuantizedFolder& f) { PartOf(f, "qweight").dtype = SafetensorsDtype::kF32; },
     {"tensor model.layers.1.mlp.gate_proj.qweight: dtype is F32, expected I32"}},
    {"AnotherShapeThanTheModel",
     "pack4",
     [](QuantizedFolder& f) {
       for (const char* suffix : {"weight_packed", "weight_scale", "weight_shape"}) {
         PartOf(f, suffix) = f.tensors.at(std::string("model.layers.1.mlp.down_proj.") + suffix);
       }
     },
     {"tensor model.layers.1.mlp.gate_proj.weight has shape [64, 176], expected [176, 64]"}},
    {"WeightTwice",
     "gptq_v1",
     [](QuantizedFolder& f) {
       f.tensors[std::string(kGate) + ".weight"] = f.converted.at(std::string(kGate) + ".weight");
     },
     {"tensor model.layers.1.mlp.gate_proj.weight is there as well as"}},
    {"CodesOfAnIgnoredModule",
     "pack4",
     [](QuantizedFolder& f) { f.quantization_config["ignore"] = {"lm_head", kGate}; },
     {"gate_proj.weight of shape [176, 64] is missing", "weight_packed is not part of the model"}},
    {"UnknownMethod",
     "awq",
     [](QuantizedFolder& f) { f.quantization_config["quant_method"] = "eetq"; },
     {"config.json: quantization_config.quant_method is \"eetq\", expected \"awq\""}},
    {"UnknownKey",
     "awq",
     [](QuantizedFolder& f) { f.quantization_config["frobnicate"] = 7; },
     {"config.json: quantization_config.frobnicate is 7: this key is not known"}},
};

class BadQuantizedFolderTest : public ::testing::TestWithParam<BadFolder> {};

TEST_P(BadQuantizedFolderTest, IsRefusedByName) {
  QuantizedFolder folder(LayoutNamed(GetParam().layout));
  GetParam().spoil(folder);
  const std::string path = folder.Write();
  const auto model = Load(path);
  for (const std::string& text : GetParam().says) {
    EXPECT_THAT(model,
                HasError(kInvalid, AllOf(HasSubstr(path), HasSubstr(text), Not(HasSubstr("\n")))));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadQuantizedFolderTest, ::testing::ValuesIn(kBadFolders),
                         [](const auto& info) { return info.param.name; });

// A folder without quantization_config may say the same in an older file.
TEST(QuantizedWeightsTest, OlderFilesSayTheSame) {
  QuantizedFolder folder(LayoutNamed("gptq_v1"));
  nlohmann::json older = std::exchange(folder.quantization_config, nullptr);
  older.erase("quant_method");
  const std::string path = folder.Write();
  EXPECT_THAT(Load(path), HasError(kInvalid, HasSubstr("is not part of the model")));
  std::ofstream(path + "/quantize_config.json") << older.dump();
  EXPECT_THAT(Load(path), IsOk());
}

}  // namespace
}  // namespace lockstep::worker
