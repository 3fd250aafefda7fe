#include "worker/model/weights/weight_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/common/byte_writer.h"
#include "tests/common/status_matchers.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;
using ::testing::HasSubstr;

constexpr uint16_t kOne = 0x3F80;
constexpr uint16_t kNaN = 0x7FC0;
constexpr uint16_t kMinusInfinity = 0xFF80;

SourceTensor Tensor(GgmlType type, std::vector<uint64_t> shape, const std::string& bytes) {
  return {.name = "my.weight",
          .shape = std::move(shape),
          .type_name = GgmlTypeName(type),
          .type = type,
          .supported = true,
          .data = std::as_bytes(std::span(bytes))};
}

absl::Status Read(const SourceTensor& tensor, int64_t first_row, size_t num_rows) {
  std::vector<float> values(num_rows * tensor.shape.back());
  return ReadRows(tensor, first_row, static_cast<int64_t>(tensor.shape.back()), values);
}

auto NamesElement(const std::string& element) {
  return HasError(absl::StatusCode::kInvalidArgument,
                  HasSubstr("tensor my.weight: element " + element));
}

TEST(WeightSourceTest, NamesTheFirstElementOfARowThatIsNotFinite) {
  constexpr size_t kRows = 5;
  constexpr size_t kColumns = 3;
  std::vector<uint16_t> bits(kRows * kColumns, kOne);
  bits[2 * kColumns + 1] = kNaN;
  bits[4 * kColumns] = kMinusInfinity;
  ByteWriter writer;
  for (const uint16_t value : bits) writer.Put(value);
  const std::string bytes = writer.bytes();
  const SourceTensor tensor = Tensor(GgmlType::kBF16, {kRows, kColumns}, bytes);
  const auto copy = [&](int64_t first_row, size_t num_rows) -> absl::Status {
    std::vector<BFloat16> values(num_rows * kColumns);
    LOCKSTEP_RETURN_IF_ERROR(CopyRows(tensor, first_row, kColumns, values));
    for (const BFloat16 value : values) EXPECT_EQ(value.bits, kOne);
    return absl::OkStatus();
  };
  // A worker of a tensor-parallel group may read rows in the middle.
  for (const auto& [first_row, num_rows] : {std::pair(0, 2), std::pair(3, 1)}) {
    EXPECT_THAT(Read(tensor, first_row, static_cast<size_t>(num_rows)), IsOk());
    EXPECT_THAT(copy(first_row, static_cast<size_t>(num_rows)), IsOk());
  }
  EXPECT_THAT(Read(tensor, 0, 5), NamesElement("[2, 1] is nan"));
  EXPECT_THAT(copy(0, 5), NamesElement("[2, 1] is nan"));
  EXPECT_THAT(Read(tensor, 3, 2), NamesElement("[4, 0] is -inf"));
  EXPECT_THAT(copy(3, 2), NamesElement("[4, 0] is -inf"));
}

TEST(WeightSourceTest, AVectorHasOneIndex) {
  const std::string bytes = ByteWriter().Put(1.0f).Put(3.4e38f).bytes();
  EXPECT_THAT(Read(Tensor(GgmlType::kF32, {2}, bytes), 0, 1),
              NamesElement("[1] is 3.4e+38, expected a number that is finite in bf16"));
}

TEST(WeightSourceTest, NamesTheLastElementOfManyAndOfALongRow) {
  constexpr uint64_t kSize = 100'000;
  ByteWriter writer;
  for (uint64_t i = 1; i < kSize; ++i) writer.Put(kOne);
  const std::string bytes = writer.Put(kNaN).bytes();
  std::vector<float> values(kSize);
  EXPECT_THAT(ReadRows(Tensor(GgmlType::kBF16, {kSize}, bytes), 0, 1, values),
              NamesElement("[99999] is nan"));
  EXPECT_THAT(Read(Tensor(GgmlType::kBF16, {1000, 100}, bytes), 0, 1000),
              NamesElement("[999, 99] is nan"));
  EXPECT_THAT(Read(Tensor(GgmlType::kBF16, {2, kSize / 2}, bytes), 0, 2),
              NamesElement("[1, 49999] is nan"));
}

// One wrong bit in the scale of a block spoils 32 weights.
TEST(WeightSourceTest, NamesTheFirstWeightOfABlockWithoutAFiniteScale) {
  constexpr uint16_t kHalfOne = 0x3C00;
  constexpr uint16_t kHalfInfinity = 0x7C00;
  ByteWriter writer;
  for (const uint16_t scale : {kHalfOne, kHalfOne, kHalfOne, kHalfInfinity}) {
    writer.Put(scale).Raw(std::string(32, '\x01'));
  }
  const std::string bytes = writer.bytes();
  const SourceTensor tensor = Tensor(GgmlType::kQ8_0, {2, 64}, bytes);
  EXPECT_THAT(Read(tensor, 0, 1), IsOk());
  EXPECT_THAT(Read(tensor, 0, 2), NamesElement("[1, 32] is inf"));
}

}  // namespace
}  // namespace lockstep::worker
