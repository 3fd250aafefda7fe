#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats/checkpoint/decode_weight.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/golden_cases.h"
#include "tests/kernels/formats/module_files.h"

// Golden files with random damage: a decoder refuses them by the name of a tensor, or makes a
// matrix that holds together.
namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;
using Random = std::mt19937_64;

constexpr SafetensorsDtype kDtypes[] = {
    SafetensorsDtype::kF32, SafetensorsDtype::kF16,  SafetensorsDtype::kBF16,
    SafetensorsDtype::kI64, SafetensorsDtype::kI32,  SafetensorsDtype::kI8,
    SafetensorsDtype::kU8,  SafetensorsDtype::kBool, SafetensorsDtype::kF8E4M3};
constexpr uint64_t kSizes[] = {0, 1, 2, 3, 7, 8, 16, 31, 64, 4096, uint64_t{1} << 33, UINT64_MAX};

template <typename T, size_t count>
T OneOf(Random& random, const T (&values)[count]) {
  return values[random() % count];
}

void FlipBits(Random& random, EncodedTensor& tensor) {
  for (uint64_t i = 1 + random() % 8; i > 0 && !tensor.bytes.empty(); --i) {
    tensor.bytes[random() % tensor.bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
  }
}

void ChangeShape(Random& random, EncodedTensor& tensor) {
  switch (random() % 4) {
    case 0:
      tensor.shape.push_back(OneOf(random, kSizes));
      break;
    case 1:
      if (!tensor.shape.empty()) tensor.shape.pop_back();
      break;
    default:
      if (!tensor.shape.empty()) {
        tensor.shape[random() % tensor.shape.size()] = OneOf(random, kSizes);
      }
  }
}

// As many bytes as the shape needs, if that is possible: what a file's reader guarantees.
void FitBytes(EncodedTensor& tensor) {
  uint64_t num_bytes = SafetensorsDtypeBytes(tensor.dtype);
  for (const uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(num_bytes, size, &num_bytes)) return;
  }
  if (num_bytes <= 1 << 20) tensor.bytes.resize(num_bytes, std::byte{0x3C});
}

void Damage(Random& random, ModuleFiles& files, std::span<const std::string_view> suffixes,
            WeightScheme& scheme) {
  const std::string suffix(suffixes[random() % suffixes.size()]);
  switch (random() % 8) {
    case 0:
      files.Erase(suffix);
      return;
    case 1:
      scheme.group_size = static_cast<uint32_t>(OneOf(random, kSizes));
      return;
    case 2:
      scheme.extent = static_cast<ScaleExtent>(random() % 4);
      return;
    case 3:
      scheme.symmetric = !scheme.symmetric;
      scheme.act_order = random() % 2 == 0;
      scheme.bits = static_cast<uint32_t>(random() % 10);
      return;
    default:
      break;
  }
  if (!files.Has(suffix)) return;
  EncodedTensor& tensor = files.At(suffix);
  switch (random() % 4) {
    case 0:
      ChangeShape(random, tensor);
      break;
    case 1:
      tensor.dtype = OneOf(random, kDtypes);
      break;
    default:
      FlipBits(random, tensor);
  }
  if (random() % 8 != 0) FitBytes(tensor);
}

void ExpectSound(const QuantizedMatrix& matrix) {
  ASSERT_GT(matrix.n, 0);
  ASSERT_GT(matrix.k, 0);
  ASSERT_GT(matrix.group_columns, 0);
  const auto num_scales = static_cast<size_t>(matrix.n * matrix.num_groups());
  ASSERT_EQ(matrix.codes.size(), static_cast<size_t>(matrix.n * matrix.k));
  ASSERT_EQ(matrix.scales.size(), num_scales);
  ASSERT_TRUE(matrix.zeros.empty() || matrix.zeros.size() == num_scales);
  ASSERT_TRUE(matrix.has_contiguous_groups() ||
              matrix.group_of_column.size() == static_cast<size_t>(matrix.k));
  for (int64_t column = 0; column < matrix.k; ++column) {
    ASSERT_GE(matrix.GroupOf(column), 0);
    ASSERT_LT(matrix.GroupOf(column), matrix.num_groups());
  }
  for (const uint16_t bits : ValueBits(matrix)) {
    ASSERT_TRUE(std::isfinite(ToFloat(BFloat16{bits})));
  }
}

class DecodeMutationsTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(DecodeMutationsTest, AreRefusedOrSound) {
  const ModuleFiles golden = ModuleFiles::FromGolden(GoldenFile("decode"), GetParam().name);
  const auto suffixes = TensorSuffixes(GetParam().scheme.format);
  Random random(20240610);
  int num_refused = 0;
  for (int round = 0; round < 400; ++round) {
    ModuleFiles files = golden;
    WeightScheme scheme = GetParam().scheme;
    for (uint64_t i = 1 + random() % 3; i > 0; --i) Damage(random, files, suffixes, scheme);
    const absl::StatusOr<QuantizedMatrix> matrix = DecodeWeight(files.View(), scheme);
    if (matrix.ok()) {
      ExpectSound(*matrix);
      continue;
    }
    ++num_refused;
    ASSERT_THAT(matrix, HasError(kInvalid, HasSubstr("tensor " + std::string(GetParam().name))));
  }
  EXPECT_GT(num_refused, 50);
  EXPECT_LT(num_refused, 400);
}

INSTANTIATE_TEST_SUITE_P(AllLayouts, DecodeMutationsTest, ::testing::ValuesIn(kGoldenCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::kernels
