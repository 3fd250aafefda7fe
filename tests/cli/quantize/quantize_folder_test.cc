#include "cli/quantize/quantize_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/quantize/quantize_target.h"
#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "common/model_files/safetensors_writer.h"
#include "kernels/formats/checkpoint/decode_weight.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kTinyLlama[] = "tests/golden/tiny-llama";

std::string TextOf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

float BFloat16At(const SafetensorsTensor& tensor, size_t index) {
  uint16_t bits;
  std::memcpy(&bits, tensor.data.data() + 2 * index, sizeof(bits));
  return kernels::ToFloat(kernels::BFloat16{bits});
}

bool IsQuantizedInTinyLlama(std::string_view name) {
  return name.find("_proj.weight") != std::string_view::npos;
}

// Relative to the largest weight.
void ExpectClose(const kernels::QuantizedMatrix& matrix, const SafetensorsTensor& original,
                 float max_error) {
  float largest = 0;
  for (size_t i = 0; i < matrix.codes.size(); ++i) {
    largest = std::max(largest, std::abs(BFloat16At(original, i)));
  }
  std::vector<kernels::BFloat16> row(static_cast<size_t>(matrix.k));
  for (int64_t n = 0; n < matrix.n; ++n) {
    kernels::DequantizeRow(matrix, n, row.data());
    for (size_t k = 0; k < row.size(); ++k) {
      const float expected = BFloat16At(original, static_cast<size_t>(n) * row.size() + k);
      ASSERT_NEAR(kernels::ToFloat(row[k]), expected, max_error * largest)
          << original.name << " [" << n << ", " << k << "]";
    }
  }
}

struct TargetCase {
  std::string_view target;
  uint32_t group_size;  // that is chosen: the matrices have 64 and 176 columns
  float max_error;      // relative to the largest weight of the model
};

constexpr TargetCase kTargetCases[] = {{"fp8", 0, 0.05f},
                                       {"fp8-block", 0, 0.05f},
                                       {"w4a16", 16, 0.1f},
                                       {"w4a16-asym", 16, 0.1f},
                                       {"w8a16", 0, 0.01f}};

class QuantizeFolderTest : public ::testing::TestWithParam<TargetCase> {};

// Reads the written folder as a loader does: by what its config.json says.
TEST_P(QuantizeFolderTest, WritesAModelThatCanBeReadAgain) {
  const TempFolder folder;
  QuantizeJob job{
      .model = kTinyLlama, .output = folder.path() + "/out", .scheme = {}, .ignored = {}};
  job.scheme = FindQuantizeTarget(GetParam().target)->scheme;
  uint64_t last = 0;
  const auto report = QuantizeFolder(job, [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(done, ++last);
    EXPECT_LE(done, total);
  });
  ASSERT_THAT(report, IsOk());
  EXPECT_LT(report->bytes_after, report->bytes_before);
  EXPECT_EQ(last, report->num_tensors);

  const auto config =
      QuantizationConfigFromJson(TextOf(job.output + "/config.json"), "config.json");
  ASSERT_THAT(config, IsOk());
  ASSERT_TRUE(config->has_value());
  const auto before = SafetensorsCheckpoint::Open(kTinyLlama);
  const auto after = SafetensorsCheckpoint::Open(job.output);
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(after, IsOk());
  uint64_t num_quantized = 0;
  for (const std::string_view name : before->TensorNames()) {
    const SafetensorsTensor& original = *before->Find(name);
    const std::string module(name.substr(0, name.rfind('.')));
    const auto scheme = (*config)->SchemeOf(module);
    ASSERT_THAT(scheme, IsOk());
    if (!IsQuantizedInTinyLlama(name)) {
      const SafetensorsTensor* const copy = after->Find(name);
      ASSERT_NE(copy, nullptr) << name;
      EXPECT_EQ(copy->shape, original.shape);
      EXPECT_TRUE(std::equal(copy->data.begin(), copy->data.end(), original.data.begin(),
                             original.data.end()));
      continue;
    }
    ++num_quantized;
    ASSERT_TRUE(scheme->has_value()) << name;
    EXPECT_EQ((*scheme)->group_size, GetParam().group_size);
    EXPECT_TRUE(**scheme == report->scheme);
    const auto matrix = kernels::DecodeWeight(kernels::TensorsOfModule(*after, module), **scheme);
    ASSERT_THAT(matrix, IsOk());
    ASSERT_EQ(static_cast<uint64_t>(matrix->n), original.shape[0]);
    ASSERT_EQ(static_cast<uint64_t>(matrix->k), original.shape[1]);
    ExpectClose(*matrix, original, GetParam().max_error);
  }
  EXPECT_EQ(num_quantized, report->num_quantized);
  EXPECT_EQ(TextOf(job.output + "/tokenizer.json"),
            TextOf(fs::path(kTinyLlama) / "tokenizer.json"));
  // All keys stay where they were; one is new.
  nlohmann::ordered_json written =
      nlohmann::ordered_json::parse(TextOf(job.output + "/config.json"));
  written.erase("quantization_config");
  EXPECT_EQ(written.dump(),
            nlohmann::ordered_json::parse(TextOf(fs::path(kTinyLlama) / "config.json")).dump());
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeFolderTest, ::testing::ValuesIn(kTargetCases),
                         [](const auto& info) {
                           std::string name(info.param.target);
                           std::erase(name, '-');
                           return name;
                         });

QuantizeJob JobInto(const TempFolder& folder, std::string_view target) {
  return {.model = kTinyLlama,
          .output = folder.path() + "/out",
          .scheme = FindQuantizeTarget(target)->scheme,
          .ignored = {}};
}

TEST(QuantizeFolderTest, IgnoredModulesKeepTheirWeights) {
  for (const std::string_view target : {"w8a16", "fp8-block"}) {
    const TempFolder folder;
    QuantizeJob job = JobInto(folder, target);
    job.ignored = {"re:.*down_proj", "model.layers.0.self_attn.q_proj"};
    const auto report = QuantizeFolder(job, nullptr);
    ASSERT_THAT(report, IsOk());
    const auto config =
        QuantizationConfigFromJson(TextOf(job.output + "/config.json"), "config.json");
    ASSERT_THAT(config, IsOk());
    const auto checkpoint = SafetensorsCheckpoint::Open(job.output);
    ASSERT_THAT(checkpoint, IsOk());
    const std::map<std::string, bool> expected = {{"model.layers.0.mlp.down_proj", false},
                                                  {"model.layers.1.mlp.down_proj", false},
                                                  {"model.layers.0.self_attn.q_proj", false},
                                                  {"model.layers.1.self_attn.q_proj", true},
                                                  {"model.layers.0.mlp.up_proj", true}};
    for (const auto& [module, is_quantized] : expected) {
      EXPECT_EQ((*config)->SchemeOf(module)->has_value(), is_quantized) << module;
      const SafetensorsTensor* const weight = checkpoint->Find(module + ".weight");
      const bool is_bf16 = weight != nullptr && weight->dtype == SafetensorsDtype::kBF16;
      EXPECT_EQ(is_bf16, !is_quantized) << module;
    }
  }
}

TEST(QuantizeFolderTest, ReadsShardsAndOtherFamilies) {
  for (const char* model : {"tests/golden/tiny-qwen2", "tests/golden/tiny-qwen3"}) {
    const TempFolder folder;
    QuantizeJob job = JobInto(folder, "w4a16");
    job.model = model;
    const auto report = QuantizeFolder(job, nullptr);
    ASSERT_THAT(report, IsOk());
    EXPECT_GT(report->num_quantized, 0u);
    EXPECT_FALSE(fs::exists(job.output + "/model.safetensors.index.json"));
    EXPECT_THAT(SafetensorsCheckpoint::Open(job.output), IsOk());
  }
}

TEST(QuantizeFolderTest, RefusesAndLeavesNothingBehind) {
  struct Case {
    std::function<void(QuantizeJob&)> change;
    std::string error;
  };
  const Case cases[] = {
      {[](QuantizeJob& job) { job.scheme.group_size = 48; },
       "columns do not divide into groups of 48"},
      {[](QuantizeJob& job) { job.model = "tests/golden/tiny-gpt2"; },
       "matrices of gpt2 are [inputs, outputs]"},
      {[](QuantizeJob& job) { job.model = "tests/golden/no-such-model"; }, "config.json"},
      {[](QuantizeJob& job) { job.ignored = {"re:("}; }, "--ignore re:(: at offset 1"},
      {[](QuantizeJob& job) { job.ignored = {"re:.*"}; }, "no matrix to quantise"},
  };
  for (const Case& c : cases) {
    const TempFolder folder;
    QuantizeJob job = JobInto(folder, "w4a16");
    c.change(job);
    const auto report = QuantizeFolder(job, nullptr);
    ASSERT_FALSE(report.ok()) << c.error;
    EXPECT_THAT(Message(report.status()), HasSubstr(c.error));
    EXPECT_FALSE(fs::exists(job.output)) << c.error;
  }
}

TEST(QuantizeFolderTest, RefusesAFolderThatIsNotEmpty) {
  const TempFolder folder;
  folder.Write("mine.txt", "text");
  QuantizeJob job = JobInto(folder, "fp8");
  job.output = folder.path();
  EXPECT_THAT(QuantizeFolder(job, nullptr), HasError(kInvalid, HasSubstr("is not empty")));
  EXPECT_EQ(TextOf(folder.path() + "/mine.txt"), "text");
}

// A model with one bad weight: nothing of the output stays.
TEST(QuantizeFolderTest, RefusesWeightsThatAreNotFinite) {
  const TempFolder folder;
  fs::copy(kTinyLlama, folder.path() + "/model", fs::copy_options::recursive);
  const std::string weights = folder.path() + "/model/model.safetensors";
  const auto file = SafetensorsFile::Open(weights);
  ASSERT_THAT(file, IsOk());
  const SafetensorsTensor* const tensor = file->Find("model.layers.1.mlp.up_proj.weight");
  ASSERT_NE(tensor, nullptr);
  const std::string bytes = TextOf(weights);
  const auto offset =
      static_cast<size_t>(tensor->data.data() - file->tensors()[0].data.data() +
                          static_cast<std::ptrdiff_t>(bytes.find(std::string(
                              reinterpret_cast<const char*>(file->tensors()[0].data.data()), 64))));
  std::string changed = bytes;
  changed[offset + 2] = '\xC0';  // element [0, 1] becomes NaN
  changed[offset + 3] = '\x7F';
  std::ofstream(weights, std::ios::binary) << changed;
  QuantizeJob job = JobInto(folder, "fp8");
  job.model = folder.path() + "/model";
  EXPECT_THAT(QuantizeFolder(job, nullptr),
              HasError(kInvalid, HasSubstr("tensor model.layers.1.mlp.up_proj.weight: element "
                                           "[0, 1] is nan")));
  EXPECT_FALSE(fs::exists(job.output));
}

TEST(QuantizeFolderTest, QuantisesAModelOnce) {
  const TempFolder folder;
  QuantizeJob job = JobInto(folder, "fp8");
  ASSERT_THAT(QuantizeFolder(job, nullptr), IsOk());
  job.model = job.output;
  job.output = folder.path() + "/again";
  EXPECT_THAT(
      QuantizeFolder(job, nullptr),
      HasError(kInvalid, HasSubstr("the weights are quantised already (compressed-tensors)")));
}

}  // namespace
}  // namespace lockstep::cli
