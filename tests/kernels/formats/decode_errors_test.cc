#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/formats/checkpoint/decode_weight.h"
#include "kernels/formats/gguf_codes/gguf_codes.h"
#include "kernels/formats/mxfp4/mxfp4.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/golden_cases.h"
#include "tests/kernels/formats/module_files.h"

// Odd and hostile files: the golden cases, each with one thing wrong.
namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;

using Change = std::function<void(ModuleFiles&, WeightScheme&)>;

struct BadFile {
  std::string_view name;
  std::string_view golden;
  Change change;
  std::string_view error;
};

template <typename T>
void SetElement(EncodedTensor& tensor, size_t index, T value) {
  std::memcpy(tensor.bytes.data() + index * sizeof(T), &value, sizeof(T));
}

Change Drop(const std::string& suffix) {
  return [suffix](ModuleFiles& files, WeightScheme&) { files.Erase(suffix); };
}

// The tensor with another shape, and as many bytes as that takes.
Change Reshape(const std::string& suffix, std::vector<uint64_t> shape) {
  return [suffix, shape](ModuleFiles& files, WeightScheme&) {
    EncodedTensor& tensor = files.At(suffix);
    size_t num_bytes = SafetensorsDtypeBytes(tensor.dtype);
    for (const uint64_t size : shape) num_bytes *= size;
    tensor.shape = shape;
    tensor.bytes.resize(num_bytes);
  };
}

template <typename T>
Change Put(const std::string& suffix, size_t index, T value) {
  return [=](ModuleFiles& files, WeightScheme&) { SetElement(files.At(suffix), index, value); };
}

// Another type of the same size.
Change Retype(const std::string& suffix, SafetensorsDtype dtype) {
  return [=](ModuleFiles& files, WeightScheme&) { files.At(suffix).dtype = dtype; };
}

Change Rescheme(std::function<void(WeightScheme&)> change) {
  return [change](ModuleFiles&, WeightScheme& scheme) { change(scheme); };
}

constexpr uint16_t kHalfInfinity = 0x7C00, kHalfNan = 0x7E00, kBFloatInfinity = 0x7F80;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const BadFile kBadFiles[] = {
    // pack-quantized
    {"PackNoCodes", "w4_g32_sym", Drop("weight_packed"),
     "tensor w4_g32_sym.weight_packed is missing"},
    {"PackNoScale", "w4_g32_sym", Drop("weight_scale"),
     "tensor w4_g32_sym.weight_scale is missing"},
    {"PackNoShape", "w4_g32_sym", Drop("weight_shape"),
     "tensor w4_g32_sym.weight_shape is missing"},
    {"PackNoZeros", "w4_g64_asym", Drop("weight_zero_point"),
     "tensor w4_g64_asym.weight_zero_point is missing"},
    {"PackCodesOfAnotherType", "w4_g32_sym", Retype("weight_packed", SafetensorsDtype::kF32),
     "tensor w4_g32_sym.weight_packed: dtype is F32, expected I32"},
    {"PackScaleOfAnotherType", "w4_g32_sym", Retype("weight_scale", SafetensorsDtype::kI16),
     "tensor w4_g32_sym.weight_scale: dtype is I16, expected F32 or F16 or BF16"},
    {"PackNegativeShape", "w4_g32_sym", Put<int64_t>("weight_shape", 0, -24),
     "tensor w4_g32_sym.weight_shape: [-24, 128] does not fit"},
    {"PackHugeShape", "w4_g32_sym", Put<int64_t>("weight_shape", 1, int64_t{1} << 62),
     "tensor w4_g32_sym.weight_shape: [24, 4611686018427387904] does not fit"},
    {"PackZeroShape", "w4_g32_sym", Put<int64_t>("weight_shape", 1, 0),
     "tensor w4_g32_sym.weight_shape: [24, 0] does not fit"},
    {"PackNarrowShape", "w4_g32_sym", Put<int64_t>("weight_shape", 1, 96),
     "tensor w4_g32_sym.weight_shape: [24, 96] does not fit"},
    {"PackShapeOfThree", "w4_g32_sym", Reshape("weight_shape", {3}),
     "tensor w4_g32_sym.weight_shape: shape is [3], expected [2]"},
    {"PackWidth", "w4_g32_sym", Reshape("weight_packed", {24, 15}),
     "does not fit w4_g32_sym.weight_packed I32 [24, 15] of 4-bit codes"},
    {"PackOneDimension", "w4_g32_sym", Reshape("weight_packed", {384}),
     "tensor w4_g32_sym.weight_packed: shape is [384], expected [rows, columns]"},
    {"PackEmpty", "w4_g32_sym", Reshape("weight_packed", {0, 16}),
     "tensor w4_g32_sym.weight_packed: shape is [0, 16], expected [rows, columns]"},
    {"PackWrongBits", "w4_g32_sym", Rescheme([](WeightScheme& scheme) { scheme.bits = 8; }),
     "tensor w4_g32_sym.weight_shape: [24, 128] does not fit"},
    {"PackThreeBits", "w4_g32_sym", Rescheme([](WeightScheme& scheme) { scheme.bits = 3; }),
     "tensor w4_g32_sym.weight_packed: codes of 3 bits, expected 4 or 8"},
    {"PackScaleShape", "w4_g32_sym", Reshape("weight_scale", {24, 5}),
     "tensor w4_g32_sym.weight_scale: shape is [24, 5], expected [24, 4]"},
    {"PackScaleTransposed", "w4_g32_sym", Reshape("weight_scale", {4, 24}),
     "tensor w4_g32_sym.weight_scale: shape is [4, 24], expected [24, 4]"},
    {"PackGroupDoesNotDivide", "w4_g32_sym",
     Rescheme([](WeightScheme& scheme) { scheme.group_size = 48; }),
     "tensor w4_g32_sym.weight_scale: 128 columns do not divide into groups of 48"},
    {"PackChannelScale", "w4_channel_asym", Reshape("weight_scale", {13, 2}),
     "tensor w4_channel_asym.weight_scale: shape is [13, 2], expected [13, 1]"},
    {"PackTensorScale", "w4_tensor_sym", Reshape("weight_scale", {9}),
     "tensor w4_tensor_sym.weight_scale: shape is [9], expected [1]"},
    {"PackZerosNotPacked", "w4_g64_asym", Reshape("weight_zero_point", {24, 2}),
     "tensor w4_g64_asym.weight_zero_point: shape is [24, 2], expected [3, 2]"},
    {"PackZerosOfAnotherType", "w4_g64_asym", Retype("weight_zero_point", SafetensorsDtype::kF32),
     "tensor w4_g64_asym.weight_zero_point: dtype is F32, expected I32"},
    {"PackZerosButSymmetric", "w4_g64_asym",
     Rescheme([](WeightScheme& scheme) { scheme.symmetric = true; }),
     "tensor w4_g64_asym.weight_zero_point: zero points other than 0, but the scheme is symmetric"},
    {"PackScaleInfinite", "w4_g32_sym", Put("weight_scale", 5, kHalfInfinity),
     "tensor w4_g32_sym.weight_scale: element [1, 1] is inf, expected a finite scale"},
    {"PackScaleNan", "w4_g32_sym", Put("weight_scale", 95, kHalfNan),
     "tensor w4_g32_sym.weight_scale: element [23, 3] is nan, expected a finite scale"},
    {"PackScaleRoundsToInfinity", "w4_channel_asym", Put("weight_scale", 3, 3.4e38f),
     "tensor w4_channel_asym.weight_scale: element [3, 0] is 3.4e+38, expected a finite scale"},
    {"PackProductInfinite", "w4_channel_asym", Put("weight_scale", 3, 1e38f),
     "tensor w4_channel_asym.weight_packed: element [3, "},
    {"PackIndexTooLarge", "w4_ordered", Put<int32_t>("weight_g_idx", 7, 4),
     "tensor w4_ordered.weight_g_idx: element [7] is 4, expected a group from 0 to 3"},
    {"PackIndexNegative", "w4_ordered", Put<int32_t>("weight_g_idx", 0, -1),
     "tensor w4_ordered.weight_g_idx: element [0] is -1, expected a group from 0 to 3"},
    {"PackIndexShort", "w4_ordered", Reshape("weight_g_idx", {127}),
     "tensor w4_ordered.weight_g_idx: shape is [127], expected [128]"},
    {"PackBytesMissing", "w4_g32_sym",
     [](ModuleFiles& files, WeightScheme&) { files.At("weight_packed").bytes.pop_back(); },
     "tensor w4_g32_sym.weight_packed: I32 [24, 16] does not take 1535 bytes"},
    // bytes
    {"IntType", "int8_channel_sym", Retype("weight", SafetensorsDtype::kU8),
     "tensor int8_channel_sym.weight: dtype is U8, expected I8"},
    {"IntNoZeros", "int8_g32_asym", Drop("weight_zero_point"),
     "tensor int8_g32_asym.weight_zero_point is missing"},
    {"IntZerosShape", "int8_g32_asym", Reshape("weight_zero_point", {16, 1}),
     "tensor int8_g32_asym.weight_zero_point: shape is [16, 1], expected [16, 3]"},
    {"Fp8Type", "fp8_channel", Retype("weight", SafetensorsDtype::kF8E5M2),
     "tensor fp8_channel.weight: dtype is F8_E5M2, expected F8_E4M3"},
    {"Fp8Nan", "fp8_channel", Put<uint8_t>("weight", 73, 0x7F),
     "tensor fp8_channel.weight: element [1, 1] is NaN"},
    {"Fp8NegativeNan", "fp8_channel", Put<uint8_t>("weight", 0, 0xFF),
     "tensor fp8_channel.weight: element [0, 0] is NaN"},
    {"Fp8NoScale", "fp8_tensor", Drop("weight_scale"), "tensor fp8_tensor.weight_scale is missing"},
    {"Fp8TensorScale", "fp8_tensor", Reshape("weight_scale", {3}),
     "tensor fp8_tensor.weight_scale: shape is [3], expected [1]"},
    {"Fp8ChannelScale", "fp8_channel", Reshape("weight_scale", {1}),
     "tensor fp8_channel.weight_scale: shape is [1], expected [16]"},
    {"Fp8ScaleInfinite", "fp8_channel", Put("weight_scale", 2, kBFloatInfinity),
     "tensor fp8_channel.weight_scale: element [2, 0] is inf, expected a finite scale"},
    {"BlockNoScale", "fp8_block", Drop("weight_scale_inv"),
     "tensor fp8_block.weight_scale_inv is missing"},
    {"BlockScaleShape", "fp8_block", Reshape("weight_scale_inv", {2, 3}),
     "tensor fp8_block.weight_scale_inv: shape is [2, 3], expected [3, 3]"},
    {"BlockScaleTransposed", "fp8_block_bf16", Reshape("weight_scale_inv", {2, 1}),
     "tensor fp8_block_bf16.weight_scale_inv: shape is [2, 1], expected [2, 2]"},
    {"BlockScaleNan", "fp8_block", Put("weight_scale_inv", 4, kNan),
     "tensor fp8_block.weight_scale_inv: element [1, 1] is nan, expected a finite scale"},
    {"BlockOfNothing", "fp8_block", Rescheme([](WeightScheme& scheme) { scheme.block_rows = 0; }),
     "tensor fp8_block.weight_scale_inv: blocks of 0 x 32"},
    // AWQ
    {"AwqNoZeros", "awq_g32", Drop("qzeros"), "tensor awq_g32.qzeros is missing"},
    {"AwqGroupDoesNotDivide", "awq_g32",
     Rescheme([](WeightScheme& scheme) { scheme.group_size = 48; }),
     "tensor awq_g32.qweight: 128 rows do not divide into groups of 48"},
    {"AwqZerosShape", "awq_g32", Reshape("qzeros", {4, 24}),
     "tensor awq_g32.qzeros: shape is [4, 24], expected [4, 3]"},
    {"AwqScalesShape", "awq_g32", Reshape("scales", {3, 24}),
     "tensor awq_g32.scales: shape is [3, 24], expected [4, 24]"},
    {"AwqZerosType", "awq_g32", Retype("qzeros", SafetensorsDtype::kF32),
     "tensor awq_g32.qzeros: dtype is F32, expected I32"},
    {"AwqScaleNan", "awq_g32", Put("scales", 25, kHalfNan),
     "tensor awq_g32.scales: element [1, 1] is nan, expected a finite scale"},
    // GPTQ
    {"GptqNoZeros", "gptq_g32", Drop("qzeros"), "tensor gptq_g32.qzeros is missing"},
    {"GptqNoIndex", "gptq_ordered", Drop("g_idx"),
     "tensor gptq_ordered.g_idx is missing, but desc_act is true"},
    {"GptqIndexTooLarge", "gptq_ordered", Put<int32_t>("g_idx", 100, 4),
     "tensor gptq_ordered.g_idx: element [100] is 4, expected a group from 0 to 3"},
    {"GptqIndexNegative", "gptq_ordered", Put<int32_t>("g_idx", 1, -5),
     "tensor gptq_ordered.g_idx: element [1] is -5, expected a group from 0 to 3"},
    {"GptqIndexShape", "gptq_ordered", Reshape("g_idx", {64}),
     "tensor gptq_ordered.g_idx: shape is [64], expected [128]"},
    {"GptqIndexType", "gptq_ordered", Retype("g_idx", SafetensorsDtype::kF32),
     "tensor gptq_ordered.g_idx: dtype is F32, expected I64 or I32"},
    {"GptqOrderWithoutDescAct", "gptq_ordered",
     Rescheme([](WeightScheme& scheme) { scheme.act_order = false; }),
     "tensor gptq_ordered.g_idx: permutes the groups of columns, but desc_act is false"},
    {"GptqScalesShape", "gptq_g32", Reshape("scales", {24, 4}),
     "tensor gptq_g32.scales: shape is [24, 4], expected [4, 24]"},
    {"GptqZerosShape", "gptq_g32", Reshape("qzeros", {4, 24}),
     "tensor gptq_g32.qzeros: shape is [4, 24], expected [4, 3]"},
    {"GptqRowsNotOfWords", "gptq_g32", Reshape("qweight", {16, 23}),
     "tensor gptq_g32.qweight: 23 columns are not a multiple of the 8 zero points of a word"},
    {"GptqTwoBits", "gptq_g32", Rescheme([](WeightScheme& scheme) { scheme.bits = 2; }),
     "tensor gptq_g32.qweight: codes of 2 bits, expected 4 or 8"},
    // FP4
    {"Nvfp4NoGlobal", "nvfp4", Drop("weight_global_scale"),
     "tensor nvfp4.weight_global_scale is missing"},
    {"Nvfp4GlobalZero", "nvfp4", Put("weight_global_scale", 0, 0.0f),
     "tensor nvfp4.weight_global_scale: F32 [1] with 0, expected one number > 0"},
    {"Nvfp4GlobalNan", "nvfp4", Put("weight_global_scale", 0, kNan),
     "tensor nvfp4.weight_global_scale: element [0] is nan, expected a finite scale"},
    {"Nvfp4TwoGlobals", "nvfp4", Reshape("weight_global_scale", {2}),
     "tensor nvfp4.weight_global_scale: F32 [2] with "},
    {"Nvfp4ScaleNan", "nvfp4", Put<uint8_t>("weight_scale", 6, 0x7F),
     "tensor nvfp4.weight_scale: element [1, 2] is NaN"},
    {"Nvfp4ScaleShape", "nvfp4", Reshape("weight_scale", {12, 2}),
     "tensor nvfp4.weight_scale: shape is [12, 2], expected [12, 4]"},
    {"Nvfp4Columns", "nvfp4", Reshape("weight_packed", {12, 30}),
     "tensor nvfp4.weight_packed: 60 columns do not divide into groups of 16"},
    {"Mxfp4ScaleNan", "mxfp4", Put<uint8_t>("weight_scale", 4, 255),
     "tensor mxfp4.weight_scale: the scale of row 1, group 1 is NaN"},
    {"Mxfp4ScaleShape", "mxfp4", Reshape("weight_scale", {12, 4}),
     "tensor mxfp4.weight_scale: shape is [12, 4], expected [12, 3]"},
    {"Mxfp4Columns", "mxfp4", Reshape("weight_packed", {12, 40}),
     "tensor mxfp4.weight_packed: 80 columns do not divide into groups of 32"},
};

class DecodeErrorsTest : public ::testing::TestWithParam<BadFile> {};

TEST_P(DecodeErrorsTest, AreRefusedByTheNameOfTheTensor) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), GetParam().golden);
  WeightScheme scheme = SchemeOfGolden(GetParam().golden);
  GetParam().change(files, scheme);
  const absl::StatusOr<QuantizedMatrix> matrix = DecodeWeight(files.View(), scheme);
  ASSERT_THAT(matrix, HasError(kInvalid, HasSubstr(std::string(GetParam().error))));
  EXPECT_EQ(Message(matrix.status()).find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, DecodeErrorsTest, ::testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DecodeErrorsTest, Mxfp4LargestScaleOverflows) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "mxfp4");
  files.At("weight_packed").bytes[0] = std::byte{0x77};  // 6 and 6
  SetElement<uint8_t>(files.At("weight_scale"), 0, 254);
  EXPECT_THAT(DecodeWeight(files.View(), SchemeOfGolden("mxfp4")),
              HasError(kInvalid,
                       HasSubstr("tensor mxfp4.weight_packed: element [0, 0] times its scale is")));
}

TEST(DecodeErrorsTest, Mxfp4Experts) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "mxfp4_experts");
  SafetensorsTensor blocks = files.At("blocks").View("experts");
  const SafetensorsTensor scales = files.At("scales").View("experts");
  EXPECT_THAT(DecodeMxfp4Expert(blocks, scales, 3),
              HasError(kInvalid, "tensor experts.blocks: expert 3 of 3"));
  EXPECT_THAT(DecodeMxfp4Expert(scales, scales, 0),
              HasError(kInvalid, HasSubstr("tensor experts.scales: U8 [3, 8, 2], expected [")));
  blocks.shape = {3, 4, 4, 16};
  EXPECT_THAT(DecodeMxfp4Expert(blocks, scales, 0),
              HasError(kInvalid, "tensor experts.scales: shape is [3, 8, 2], expected [3, 4, 4]"));
  ModuleFiles none("experts");
  EXPECT_THAT(DecodeWeight(none.View(), {.format = WeightFormat::kMxfp4}),
              HasError(kInvalid, "module experts: mxfp4 has one tensor for all experts"));
}

TEST(DecodeErrorsTest, GgufCodes) {
  std::vector<std::byte> blocks(2 * 34);
  GgufTensor tensor{.name = "t", .type = GgmlType::kQ8_0, .shape = {1, 64}, .data = blocks};
  EXPECT_THAT(DecodeGgufCodes(tensor), IsOk());
  blocks[34] = std::byte{0};
  blocks[35] = std::byte{0x7C};
  EXPECT_THAT(DecodeGgufCodes(tensor),
              HasError(kInvalid, "tensor t: the scale of row 0, block 1 is inf"));
  tensor.shape = {64};
  EXPECT_THAT(DecodeGgufCodes(tensor),
              HasError(kInvalid, HasSubstr("tensor t: expected a matrix")));
  tensor.type = GgmlType::kF16;
  EXPECT_THAT(DecodeGgufCodes(tensor), HasError(absl::StatusCode::kUnimplemented,
                                                "tensor t: F16 is not computed from codes"));
}

// Details of layouts in which tools differ.
TEST(DecodeDetailsTest, AnIndexOfMinusOnesMeansNoOrder) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "w4_g32_sym");
  files.Set(
      MakeTensor("weight_g_idx", SafetensorsDtype::kI32, {128}, std::vector<int32_t>(128, -1)));
  const auto matrix = DecodeWeight(files.View(), SchemeOfGolden("w4_g32_sym"));
  ASSERT_THAT(matrix, IsOk());
  EXPECT_TRUE(matrix->has_contiguous_groups());
  EXPECT_EQ(ValueBits(*matrix), ElementsOf<uint16_t>(files.At("values").bytes));
}

TEST(DecodeDetailsTest, WithoutDescActAnIndexOfZerosIsNotRead) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "gptq_g32");
  files.At("g_idx").bytes.assign(files.At("g_idx").bytes.size(), std::byte{0});
  const auto matrix = DecodeWeight(files.View(), SchemeOfGolden("gptq_g32"));
  ASSERT_THAT(matrix, IsOk());
  EXPECT_EQ(ValueBits(*matrix), ElementsOf<uint16_t>(files.At("values").bytes));
  files.Erase("g_idx");
  EXPECT_TRUE(*DecodeWeight(files.View(), SchemeOfGolden("gptq_g32")) == *matrix);
}

TEST(DecodeDetailsTest, AnOrderThatSortsTheGroupsIsNone) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "gptq_g32");
  WeightScheme scheme = SchemeOfGolden("gptq_g32");
  scheme.act_order = true;
  const auto matrix = DecodeWeight(files.View(), scheme);
  ASSERT_THAT(matrix, IsOk());
  EXPECT_TRUE(matrix->has_contiguous_groups());
}

TEST(DecodeDetailsTest, SymmetricFilesMayHaveZeroPointsOfZero) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "int8_channel_sym");
  files.Set(
      MakeTensor("weight_zero_point", SafetensorsDtype::kI8, {16, 1}, std::vector<uint8_t>(16, 0)));
  const auto matrix = DecodeWeight(files.View(), SchemeOfGolden("int8_channel_sym"));
  ASSERT_THAT(matrix, IsOk());
  EXPECT_TRUE(matrix->zeros.empty());
}

TEST(DecodeDetailsTest, ScalesOfIntegersAreRoundedToBFloat16) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("decode"), "w8_g32_asym");
  SetElement<uint16_t>(files.At("weight_scale"), 0, 0x3C01);  // 1 + 2^-10 in F16
  const auto matrix = DecodeWeight(files.View(), SchemeOfGolden("w8_g32_asym"));
  ASSERT_THAT(matrix, IsOk());
  EXPECT_EQ(matrix->scales[0], 1.0f);
}

}  // namespace
}  // namespace lockstep::kernels
