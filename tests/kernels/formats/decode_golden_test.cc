#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/formats/checkpoint/decode_weight.h"
#include "kernels/formats/gguf_codes/gguf_codes.h"
#include "kernels/formats/mxfp4/mxfp4.h"
#include "kernels/quant/dequantize.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/golden_cases.h"
#include "tests/kernels/formats/module_files.h"

namespace lockstep::kernels {
namespace {

ModuleFiles GoldenModule(std::string_view name) {
  return ModuleFiles::FromGolden(GoldenFile("decode"), name);
}

class DecodeGoldenTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(DecodeGoldenTest, EqualsTheReferenceBitForBit) {
  ModuleFiles files = GoldenModule(GetParam().name);
  ASSERT_TRUE(files.Has("values"));
  const absl::StatusOr<QuantizedMatrix> matrix = DecodeWeight(files.View(), GetParam().scheme);
  ASSERT_THAT(matrix, IsOk());
  const std::vector<uint64_t>& shape = files.At("values").shape;
  ASSERT_EQ(shape, (std::vector<uint64_t>{static_cast<uint64_t>(matrix->n),
                                          static_cast<uint64_t>(matrix->k)}));
  const std::vector<uint16_t> bits = ValueBits(*matrix);
  const std::vector<uint16_t> expected = ElementsOf<uint16_t>(files.At("values").bytes);
  ASSERT_EQ(bits.size(), expected.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(bits[i], expected[i]) << "row " << i / shape[1] << ", column " << i % shape[1];
  }
}

TEST_P(DecodeGoldenTest, ReadsOnlyTheTensorsThatItNames) {
  ModuleFiles files = GoldenModule(GetParam().name);
  const auto suffixes = TensorSuffixes(GetParam().scheme.format);
  ModuleTensors tensors = files.View();
  tensors.find = [find = tensors.find, suffixes](std::string_view suffix) {
    EXPECT_NE(std::find(suffixes.begin(), suffixes.end(), suffix), suffixes.end()) << suffix;
    return find(suffix);
  };
  EXPECT_THAT(DecodeWeight(tensors, GetParam().scheme), IsOk());
}

INSTANTIATE_TEST_SUITE_P(AllLayouts, DecodeGoldenTest, ::testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DecodeGoldenTest, ReadsEveryExpertOfMxfp4) {
  ModuleFiles files = GoldenModule("mxfp4_experts");
  const SafetensorsTensor blocks = files.At("blocks").View("experts");
  const SafetensorsTensor scales = files.At("scales").View("experts");
  std::vector<uint16_t> bits;
  for (int64_t expert = 0; expert < 3; ++expert) {
    const absl::StatusOr<QuantizedMatrix> matrix = DecodeMxfp4Expert(blocks, scales, expert);
    ASSERT_THAT(matrix, IsOk());
    EXPECT_EQ(matrix->n, 8);
    EXPECT_EQ(matrix->k, 64);
    const std::vector<uint16_t> part = ValueBits(*matrix);
    bits.insert(bits.end(), part.begin(), part.end());
  }
  EXPECT_EQ(bits, ElementsOf<uint16_t>(files.At("values").bytes));
}

TEST(DecodeGoldenTest, Q80HasTheValuesOfTheConversionAtLoad) {
  ModuleFiles files = GoldenModule("q8_0");
  const std::vector<std::byte>& blocks = files.At("blocks").bytes;
  const GgufTensor tensor{.name = "t", .type = GgmlType::kQ8_0, .shape = {12, 96}, .data = blocks};
  const absl::StatusOr<QuantizedMatrix> matrix = DecodeGgufCodes(tensor);
  ASSERT_THAT(matrix, IsOk());
  EXPECT_EQ(ValueBits(*matrix), ElementsOf<uint16_t>(files.At("values").bytes));

  std::vector<float> converted(12 * 96);
  ASSERT_THAT(Dequantize(GgmlType::kQ8_0, blocks, converted), IsOk());
  std::vector<uint16_t> bits;
  for (const float value : converted) bits.push_back(ToBFloat16(value + 0.0f).bits);  // no -0
  EXPECT_EQ(ValueBits(*matrix), bits);
}

// Each fault is what a decoder with that mistake would read.
struct PlantedFault {
  std::string_view name;
  std::string_view golden;
  std::function<void(ModuleFiles&)> plant;
};

void SwapNibbles(EncodedTensor& tensor) {
  for (std::byte& byte : tensor.bytes) byte = (byte << 4) | (byte >> 4);
}

void AddToWords(EncodedTensor& tensor, uint32_t addend) {
  std::vector<uint32_t> words = ElementsOf<uint32_t>(tensor.bytes);
  for (uint32_t& word : words) word += addend;
  tensor.bytes = BytesOf(std::span<const uint32_t>(words));
}

// The first row of scales becomes the last.
void RotateRows(EncodedTensor& tensor) {
  const auto row_bytes =
      static_cast<std::ptrdiff_t>(tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]));
  std::rotate(tensor.bytes.begin(), tensor.bytes.begin() + row_bytes, tensor.bytes.end());
}

// Nibble i holds column i, not column {0, 2, 4, 6, 1, 3, 5, 7}[i].
void ForgetAwqOrder(EncodedTensor& tensor) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<uint32_t> words = ElementsOf<uint32_t>(tensor.bytes);
  for (uint32_t& word : words) {
    uint32_t moved = 0;
    for (int i = 0; i < 8; ++i) moved |= ((word >> (4 * kOrder[i])) & 15u) << (4 * i);
    word = moved;
  }
  tensor.bytes = BytesOf(std::span<const uint32_t>(words));
}

const PlantedFault kPlantedFaults[] = {
    {"PackNibbleOrder", "w4_g32_sym", [](ModuleFiles& f) { SwapNibbles(f.At("weight_packed")); }},
    {"PackZeroPointMinusOne", "w4_g64_asym",
     [](ModuleFiles& f) { AddToWords(f.At("weight_zero_point"), 0x11111111u); }},
    {"PackScaleRow", "w4_g128_sym", [](ModuleFiles& f) { RotateRows(f.At("weight_scale")); }},
    {"PackGroupIndexIgnored", "w4_ordered", [](ModuleFiles& f) { f.Erase("weight_g_idx"); }},
    {"AwqNibbleOrder", "awq_g32", [](ModuleFiles& f) { ForgetAwqOrder(f.At("qweight")); }},
    {"AwqZeroOrder", "awq_g32", [](ModuleFiles& f) { ForgetAwqOrder(f.At("qzeros")); }},
    {"AwqZeroPointMinusOne", "awq_g32",
     [](ModuleFiles& f) { AddToWords(f.At("qzeros"), 0x11111111u); }},
    {"AwqScaleRow", "awq_g32", [](ModuleFiles& f) { RotateRows(f.At("scales")); }},
    {"GptqNibbleOrder", "gptq_g32", [](ModuleFiles& f) { SwapNibbles(f.At("qweight")); }},
    {"GptqZeroPointMinusOne", "gptq_g32",
     [](ModuleFiles& f) { AddToWords(f.At("qzeros"), 0u - 0x11111111u); }},
    {"GptqScaleRow", "gptq_g32", [](ModuleFiles& f) { RotateRows(f.At("scales")); }},
    {"GptqGroupIndexSorted", "gptq_ordered",
     [](ModuleFiles& f) {
       std::vector<int32_t> groups = ElementsOf<int32_t>(f.At("g_idx").bytes);
       std::sort(groups.begin(), groups.end());
       f.At("g_idx").bytes = BytesOf(std::span<const int32_t>(groups));
     }},
    {"Fp8ScaleRow", "fp8_channel", [](ModuleFiles& f) { RotateRows(f.At("weight_scale")); }},
    {"Fp8BlockScaleRow", "fp8_block", [](ModuleFiles& f) { RotateRows(f.At("weight_scale_inv")); }},
    {"Nvfp4NibbleOrder", "nvfp4", [](ModuleFiles& f) { SwapNibbles(f.At("weight_packed")); }},
    {"Mxfp4ScaleRow", "mxfp4", [](ModuleFiles& f) { RotateRows(f.At("weight_scale")); }},
};

class PlantedFaultTest : public ::testing::TestWithParam<PlantedFault> {};

TEST_P(PlantedFaultTest, ChangesTheValues) {
  ModuleFiles files = GoldenModule(GetParam().golden);
  GetParam().plant(files);
  const absl::StatusOr<QuantizedMatrix> matrix =
      DecodeWeight(files.View(), SchemeOfGolden(GetParam().golden));
  ASSERT_THAT(matrix, IsOk());
  EXPECT_NE(ValueBits(*matrix), ElementsOf<uint16_t>(files.At("values").bytes));
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaultTest, ::testing::ValuesIn(kPlantedFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PlantedFaultTest, ReadingVersion1AsVersion2ChangesTheValues) {
  for (const std::string_view name : {"gptq_g32", "gptq_channel", "gptq_int8"}) {
    ModuleFiles files = GoldenModule(name);
    WeightScheme scheme = SchemeOfGolden(name);
    scheme.zeros_minus_one = false;
    const absl::StatusOr<QuantizedMatrix> matrix = DecodeWeight(files.View(), scheme);
    ASSERT_THAT(matrix, IsOk());
    EXPECT_NE(ValueBits(*matrix), ElementsOf<uint16_t>(files.At("values").bytes)) << name;
  }
}

}  // namespace
}  // namespace lockstep::kernels
