#include "common/model_files/gguf.h"

#include <gtest/gtest.h>

#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;

absl::StatusOr<GgufFile> ParseGguf(const std::string& bytes) {
  return GgufFile::Parse(AsBytes(bytes), "m.gguf");
}

TEST(GgufTest, ReadsEveryScalarType) {
  const std::string bytes = GgufBuilder()
                                .Scalar("u8", 0, uint8_t{200})
                                .Scalar("i8", 1, int8_t{-100})
                                .Scalar("u16", 2, uint16_t{60000})
                                .Scalar("i16", 3, int16_t{-30000})
                                .Uint32("u32", 4000000000u)
                                .Int32("i32", -2000000000)
                                .Float32("f32", 0.5f)
                                .Bool("yes", true)
                                .Bool("no", false)
                                .String("text", "añb")
                                .Scalar("u64", 10, uint64_t{1} << 63)
                                .Scalar("i64", 11, int64_t{-1} << 62)
                                .Scalar("f64", 12, 0.1)
                                .Build();
  const absl::StatusOr<GgufFile> file = ParseGguf(bytes);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(*file->GetUint("u8"), 200u);
  EXPECT_EQ(*file->GetFloat("i8"), -100.0);
  EXPECT_EQ(*file->GetUint("u16"), 60000u);
  EXPECT_EQ(*file->GetFloat("i16"), -30000.0);
  EXPECT_EQ(*file->GetUint("u32"), 4000000000u);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i32")), -2000000000);
  EXPECT_EQ(*file->GetFloat("f32"), 0.5);
  EXPECT_TRUE(*file->GetBool("yes"));
  EXPECT_FALSE(*file->GetBool("no"));
  EXPECT_EQ(*file->GetString("text"), "añb");
  EXPECT_EQ(*file->GetUint("u64"), uint64_t{1} << 63);
  EXPECT_EQ(std::get<int64_t>(*file->Find("i64")), int64_t{-1} << 62);
  EXPECT_EQ(*file->GetFloat("f64"), 0.1);
  EXPECT_THAT(file->Keys(), ElementsAre("f32", "f64", "i16", "i32", "i64", "i8", "no", "text",
                                        "u16", "u32", "u64", "u8", "yes"));
}

TEST(GgufTest, ReadsArrays) {
  const std::string bytes =
      GgufBuilder()
          .Strings("strings", {"a", "", "ccc"})
          .Ints("ints", {3, -4})
          .Entry("bytes", 9, ByteWriter().U32(0).U64(2).U8(7).U8(255).bytes())
          .Entry("bools", 9, ByteWriter().U32(7).U64(2).U8(1).U8(0).bytes())
          .Entry("floats", 9, ByteWriter().U32(6).U64(2).Raw(Floats({1.5f, -2.0f})).bytes())
          .Entry("empty", 9, ByteWriter().U32(8).U64(0).bytes())
          .Build();
  const absl::StatusOr<GgufFile> file = ParseGguf(bytes);
  ASSERT_THAT(file, IsOk());
  const auto strings = file->GetStrings("strings");
  ASSERT_THAT(strings, IsOk());
  EXPECT_THAT(*strings, ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*file->GetInts("ints"), ElementsAre(3, -4));
  EXPECT_THAT(*file->GetInts("bytes"), ElementsAre(7, 255));
  EXPECT_THAT(file->GetInts("floats"), HasError(kInvalid, HasSubstr("kind array of floats")));
  EXPECT_TRUE(file->GetStrings("empty")->empty());
}

TEST(GgufTest, WrongKindsAndAbsentKeysAreErrorsThatNameThem) {
  const std::string bytes =
      GgufBuilder()
          .String("text", "x")
          .Int32("negative", -1)
          .Strings("strings", {"x"})
          .Entry("big", 9, ByteWriter().U32(10).U64(1).U64(uint64_t{1} << 63).bytes())
          .Build();
  const absl::StatusOr<GgufFile> file = ParseGguf(bytes);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->Find("absent"), nullptr);
  EXPECT_THAT(file->GetUint("absent"),
              HasError(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("m.gguf"), HasSubstr("absent is missing"))));
  EXPECT_THAT(
      file->GetUint("text"),
      HasError(kInvalid, AllOf(HasSubstr("m.gguf"),
                               HasSubstr("text is of kind string, expected unsigned integer"))));
  EXPECT_THAT(file->GetUint("negative"), HasError(kInvalid, HasSubstr("negative is -1")));
  EXPECT_THAT(file->GetString("negative"),
              HasError(kInvalid, HasSubstr("kind integer, expected string")));
  EXPECT_THAT(file->GetFloat("strings"),
              HasError(kInvalid, HasSubstr("kind array of strings, expected float")));
  EXPECT_THAT(file->GetBool("text"), HasError(kInvalid, HasSubstr("expected bool")));
  EXPECT_THAT(file->GetStrings("text"), HasError(kInvalid, HasSubstr("expected array of strings")));
  EXPECT_THAT(file->GetInts("strings"),
              HasError(kInvalid, HasSubstr("expected array of integers")));
  EXPECT_THAT(file->GetInts("big"), HasError(kInvalid, HasSubstr("9223372036854775808")));
}

TEST(GgufTest, LocatesTensorsAndReversesTheirShape) {
  const std::string bytes = GgufBuilder()
                                .Uint32("general.alignment", 32)
                                .Tensor("b", GgmlType::kF32, {3, 2}, Floats({1, 2, 3, 4, 5, 6}))
                                .Tensor("a", GgmlType::kQ4_1, {64}, std::string(40, '\7'))
                                .Build();
  const absl::StatusOr<GgufFile> file = ParseGguf(bytes);
  ASSERT_THAT(file, IsOk());
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->FindTensor("c"), nullptr);
  const GgufTensor* b = file->FindTensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, GgmlType::kF32);
  EXPECT_THAT(b->shape, ElementsAre(2, 3));
  ASSERT_EQ(b->data.size(), 24u);
  float last;
  std::memcpy(&last, b->data.data() + 20, sizeof(last));
  EXPECT_EQ(last, 6.0f);
  const GgufTensor* a = file->FindTensor("a");
  EXPECT_EQ(a->data.size(), 40u);
  EXPECT_EQ(a->data[0], std::byte{7});
}

TEST(GgufTest, HonoursTheFilesAlignment) {
  ByteWriter file;
  const std::string header = GgufBuilder()
                                 .Uint32("general.alignment", 8)
                                 .TensorEntry("a", kF32, {1}, 0)
                                 .TensorEntry("b", kF32, {1}, 8)
                                 .Build();
  // Build() pads to 32; cut back to the end of the entries, then pad to 8.
  const size_t entries_end = 4 + 4 + 8 + 8 + (8 + 17 + 4 + 4) + 2 * (8 + 1 + 4 + 8 + 4 + 8);
  file.Raw(std::string_view(header).substr(0, entries_end)).PadTo(8).Put(1.0f).PadTo(8).Put(2.0f);
  const absl::StatusOr<GgufFile> parsed = ParseGguf(file.bytes());
  ASSERT_THAT(parsed, IsOk());
  float value;
  std::memcpy(&value, parsed->FindTensor("b")->data.data(), sizeof(value));
  EXPECT_EQ(value, 2.0f);
}

TEST(GgufTest, OpenKeepsTheFileMappedForCopies) {
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", GgufBuilder().String("k", "value").Build());
  GgufFile copy = [&] { return *GgufFile::Open(path); }();
  EXPECT_EQ(*copy.GetString("k"), "value");
  EXPECT_EQ(copy.name(), path);
  EXPECT_THAT(GgufFile::Open(path + ".no"),
              HasError(absl::StatusCode::kNotFound, HasSubstr(".no")));
}

struct BadGguf {
  std::string what;
  std::string bytes;
  std::string expected;  // part of the message
};

std::string Header(uint32_t version, uint64_t num_tensors, uint64_t num_entries) {
  return ByteWriter().Raw("GGUF").U32(version).U64(num_tensors).U64(num_entries).bytes();
}

std::vector<BadGguf> BadHeaders() {
  const std::string room(100, '\0');
  return {
      {"empty", "", "the file is empty, so its download or copy did not finish"},
      {"three bytes", "GGU", "offset 0: not a GGUF file"},
      {"other magic", "GGML" + room, "offset 0: not a GGUF file"},
      {"no version", "GGUF", "offset 4: the file ends in the version"},
      {"version 1", Header(1, 0, 0), "offset 4: GGUF version 1, expected 2 or 3"},
      {"version 4", Header(4, 0, 0), "GGUF version 4, expected 2 or 3"},
      {"big endian", Header(3u << 24, 0, 0), "(a big-endian file?)"},
      {"no counts", std::string("GGUF\3\0\0\0", 8),
       "offset 8: the file ends in the number of tensors"},
      {"tensor count", Header(3, 1ull << 60, 0) + room,
       "offset 8: the number of tensors is 1152921504606846976"},
      {"tensors beyond the file", Header(3, 1000, 0) + room,
       "more than the 108 bytes left can hold"},
      {"entry count", Header(3, 0, ~0ull) + room, "offset 16: the number of metadata entries"},
      {"entries beyond the file", Header(3, 0, 50) + room, "more than the 100 bytes left can hold"},
  };
}

std::vector<BadGguf> BadMetadata() {
  const auto entry = [](std::string_view raw) {
    return Header(3, 0, 1) + std::string(raw) + std::string(20, '\0');
  };
  const auto with = [](uint32_t type, const ByteWriter& value) {
    return GgufBuilder().Entry("key", type, value.bytes()).Build();
  };
  return {
      {"key longer than the file", entry(ByteWriter().U64(1000).bytes()),
       "offset 24: a metadata key has length 1000"},
      {"key length that overflows", entry(ByteWriter().U64(~0ull).bytes()),
       "has length 18446744073709551615"},
      {"key too long", GgufBuilder().Uint32(std::string(2000, 'k'), 1).Build(),
       "length 2000, expected at most 1024"},
      {"empty key", GgufBuilder().Uint32("", 1).Build(), "metadata entry 0 has an empty key"},
      {"value type", with(13, ByteWriter().U64(0)), "the type of key is 13, expected 0 to 12"},
      {"huge value type", with(0xffffffff, ByteWriter().U64(0)), "the type of key is 4294967295"},
      {"bool", with(7, ByteWriter().U8(2)), "the value of key is 2, expected a bool"},
      {"string longer than the file", with(8, ByteWriter().U64(1 << 20)),
       "the value of key has length 1048576"},
      {"nested array", with(9, ByteWriter().U32(9).U64(1).U32(0).U64(0)),
       "key is an array of arrays"},
      {"array type", with(9, ByteWriter().U32(77).U64(0)), "the element type of key is 77"},
      {"array longer than the file", with(9, ByteWriter().U32(0).U64(1 << 20)),
       "number of elements of key is 1048576"},
      {"array count", with(9, ByteWriter().U32(12).U64(~0ull)),
       "number of elements of key is 18446744073709551615"},
      {"array of numbers cut off", with(9, ByteWriter().U32(12).U64(8).U64(0)),
       "the file ends in the array key (needs 64 bytes, "},
      {"array of strings cut off", with(9, ByteWriter().U32(8).U64(3).U64(1).Raw("x")),
       "the file ends in an element of key"},
      {"array of bools", with(9, ByteWriter().U32(7).U64(2).U8(1).U8(9)),
       "an element of key is 9, expected a bool"},
      {"key twice", GgufBuilder().Uint32("a", 1).Uint32("b", 1).Uint32("a", 2).Build(),
       "key a is present twice"},
      {"control characters", GgufBuilder().Entry("a\nb", 99, "12345678").Build(),
       "the type of a\\nb is 99"},
      {"alignment 0", GgufBuilder().Uint32("general.alignment", 0).Build(),
       "general.alignment is not a power of two"},
      {"alignment 24", GgufBuilder().Uint32("general.alignment", 24).Build(), "general.alignment"},
      {"alignment 4", GgufBuilder().Uint32("general.alignment", 4).Build(), "general.alignment"},
      {"alignment 2^31", GgufBuilder().Uint32("general.alignment", 1u << 31).Build(),
       "general.alignment"},
      {"alignment text", GgufBuilder().String("general.alignment", "32").Build(),
       "general.alignment"},
  };
}

std::vector<BadGguf> BadTensors() {
  const auto tensor = [](uint32_t type, const std::vector<uint64_t>& dimensions, uint64_t offset) {
    return GgufBuilder().TensorEntry("t", type, dimensions, offset).Build() +
           std::string(256, '\0');
  };
  const uint64_t big = uint64_t{1} << 62;
  return {
      {"no name", GgufBuilder().TensorEntry("", kF32, {1}, 0).Build(),
       "a tensor has an empty name"},
      {"long name", GgufBuilder().TensorEntry(std::string(300, 'n'), kF32, {1}, 0).Build(),
       "length 300, expected at most 255"},
      {"no dimensions", tensor(kF32, {}, 0), "tensor t has 0 dimensions, expected 1 to 4"},
      {"five dimensions", tensor(kF32, {1, 1, 1, 1, 1}, 0), "tensor t has 5 dimensions"},
      {"dimension 0", tensor(kF32, {4, 0}, 0), "tensor t has a dimension of 0"},
      {"type", tensor(99, {1}, 0), "tensor t has type 99, which is not known"},
      {"part of a block", tensor(2, {33}, 0),
       "rows of 33 elements, but Q4_0 needs a multiple of 32"},
      {"size overflow", tensor(kF32, {big, 4}, 0), "the size of tensor t does not fit"},
      {"size overflow in rows", tensor(kF32, {4, big, 2}, 0), "the size of tensor t does not fit"},
      {"larger than the file", tensor(kF32, {1 << 20}, 0),
       "tensor t needs 4194304 bytes at data offset 0"},
      {"offset beyond the file", tensor(kF32, {1}, 1 << 20),
       "tensor t needs 4 bytes at data offset 1048576"},
      {"offset plus size overflows", tensor(kF32, {4}, ~uint64_t{31}), "tensor t needs 16 bytes"},
      {"unaligned offset", tensor(kF32, {1}, 4),
       "tensor t has data offset 4, expected a multiple of 32"},
      {"overlap",
       GgufBuilder().TensorEntry("a", kF32, {16}, 0).TensorEntry("b", kF32, {1}, 32).Build() +
           std::string(256, '\0'),
       "tensors a and b overlap at data offset 32"},
      {"tensor twice",
       GgufBuilder().TensorEntry("a", kF32, {1}, 0).TensorEntry("a", kF32, {1}, 32).Build() +
           std::string(256, '\0'),
       "tensor a is present twice"},
      {"entry cut off",
       Header(3, 1, 0) + ByteWriter().U64(1).Raw("t").U32(2).U64(1).U64(1).bytes() + "123",
       "the file ends in the type of t"},
  };
}

class BadGgufTest : public ::testing::TestWithParam<std::vector<BadGguf> (*)()> {};

TEST_P(BadGgufTest, IsRefusedNamingFilePlaceAndExpectation) {
  for (const BadGguf& bad : GetParam()()) {
    SCOPED_TRACE(bad.what);
    EXPECT_THAT(ParseGguf(bad.bytes),
                HasError(kInvalid, AllOf(HasSubstr("m.gguf: "), HasSubstr(bad.expected))));
  }
}

INSTANTIATE_TEST_SUITE_P(Headers, BadGgufTest, ::testing::Values(&BadHeaders));
INSTANTIATE_TEST_SUITE_P(Metadata, BadGgufTest, ::testing::Values(&BadMetadata));
INSTANTIATE_TEST_SUITE_P(Tensors, BadGgufTest, ::testing::Values(&BadTensors));

TEST(GgufTest, EveryTruncationIsAnErrorOrALegalShorterFile) {
  const std::string bytes = GgufBuilder()
                                .Strings("s", {"a", "bc"})
                                .Float32("f", 1)
                                .Tensor("t", GgmlType::kF32, {2, 2}, Floats({1, 2, 3, 4}))
                                .Build();
  ASSERT_THAT(ParseGguf(bytes), IsOk());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_THAT(ParseGguf(cut), HasError(kInvalid, HasSubstr("m.gguf"))) << length;
  }
}

TEST(GgmlTypeTest, NamesAndBlockSizes) {
  EXPECT_EQ(GgmlTypeName(GgmlType::kQ4_1), "Q4_1");
  EXPECT_EQ(GgmlTypeName(static_cast<GgmlType>(99)), "type 99");
  EXPECT_EQ(GgmlTypeBlockSize(GgmlType::kQ6_K)->num_elements, 256u);
  EXPECT_EQ(GgmlTypeBlockSize(GgmlType::kQ6_K)->num_bytes, 210u);
  EXPECT_FALSE(GgmlTypeBlockSize(static_cast<GgmlType>(99)).has_value());
}

}  // namespace
}  // namespace lockstep
