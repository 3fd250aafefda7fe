#include "common/model_files/safetensors.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/common/byte_writer.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string File(std::string_view header, std::string_view data = "") {
  return ByteWriter().U64(header.size()).Raw(header).Raw(data).bytes();
}

// One member of a header. `shape` and `offsets` are the insides of their arrays.
std::string Entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, dtype,
                     shape, offsets);
}

std::string Header(std::initializer_list<std::string> entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

absl::StatusOr<SafetensorsFile> ParseSafetensors(const std::string& bytes) {
  return SafetensorsFile::Parse(AsBytes(bytes), "m.safetensors");
}

TEST(SafetensorsTest, ReadsTensorsInAnyOrderOfTheHeader) {
  const std::string header =
      Header({Entry("b", "F16", "2,2", "4,12"), R"("__metadata__":{"format":"pt"})",
              Entry("a", "F32", "1", "0,4"), Entry("scalar", "U8", "", "12,13"),
              Entry("none", "I64", "3,0", "4,4")});
  const std::string bytes = File(header + "   ", "AAAABBBBbbbbS");
  const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(bytes);
  ASSERT_THAT(file, IsOk());
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->Find("c"), nullptr);
  const SafetensorsTensor* b = file->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, SafetensorsDtype::kF16);
  EXPECT_THAT(b->shape, ElementsAre(2, 2));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b->data.data()), b->data.size()), "BBBBbbbb");
  EXPECT_THAT(file->Find("scalar")->shape, IsEmpty());
  EXPECT_THAT(file->Find("none")->data, IsEmpty());
}

TEST(SafetensorsTest, ReadsAFileWithoutTensors) {
  const std::string bytes = File("{}");
  const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(bytes);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->tensors(), IsEmpty());
}

TEST(SafetensorsTest, KnowsEveryDtype) {
  const std::pair<SafetensorsDtype, size_t> sizes[] = {
      {SafetensorsDtype::kF64, 8},  {SafetensorsDtype::kF32, 4},    {SafetensorsDtype::kF16, 2},
      {SafetensorsDtype::kBF16, 2}, {SafetensorsDtype::kI64, 8},    {SafetensorsDtype::kI32, 4},
      {SafetensorsDtype::kI16, 2},  {SafetensorsDtype::kI8, 1},     {SafetensorsDtype::kU8, 1},
      {SafetensorsDtype::kBool, 1}, {SafetensorsDtype::kF8E4M3, 1}, {SafetensorsDtype::kF8E5M2, 1}};
  for (const auto& [dtype, num_bytes] : sizes) {
    const std::string name(SafetensorsDtypeName(dtype));
    EXPECT_EQ(SafetensorsDtypeBytes(dtype), num_bytes) << name;
    const std::string header = Header({Entry("t", name, "3", fmt::format("0,{}", 3 * num_bytes))});
    const std::string bytes = File(header, std::string(3 * num_bytes, '\0'));
    const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(bytes);
    ASSERT_THAT(file, IsOk()) << name;
    EXPECT_EQ(file->Find("t")->dtype, dtype);
  }
}

struct BadSafetensors {
  std::string header;
  std::string data;
  std::string expected;
};

TEST(SafetensorsTest, RefusesBadHeadersNamingFileTensorAndExpectation) {
  const BadSafetensors cases[] = {
      {"", "", "header: byte 0"},
      {"{", "", "header: byte"},
      {"[]", "", "the header is []"},
      {R"({"t":1})", "", "tensor t is 1, expected an object"},
      {R"({"t":{"shape":[1],"data_offsets":[0,1]}})", "x", "tensor t.dtype is missing"},
      {R"({"t":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", "x",
       "tensor t.dtype is 7, expected a string"},
      {Header({Entry("t", "F4", "1", "0,1")}), "x",
       "tensor t.dtype is \"F4\", which is not supported"},
      {R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", "x", "tensor t.shape is missing"},
      {R"({"t":{"dtype":"U8","shape":3,"data_offsets":[0,1]}})", "x",
       "tensor t.shape is 3, expected an array"},
      {Header({Entry("t", "U8", "-1", "0,1")}), "x", "tensor t.shape is [-1]"},
      {Header({Entry("t", "U8", "1.0", "0,1")}), "x", "tensor t.shape is [1.0]"},
      {R"({"t":{"dtype":"U8","shape":[1]}})", "x", "tensor t.data_offsets is missing"},
      {Header({Entry("t", "U8", "1", "0")}), "x", "tensor t.data_offsets is [0]"},
      {Header({Entry("t", "U8", "1", "0,1,2")}), "x", "data_offsets is [0, 1, 2]"},
      {Header({Entry("t", "U8", "1", "1,0")}), "x", "data_offsets is [1, 0]"},
      {Header({Entry("t", "U8", "2", "0,2")}), "x", "within the 1 bytes of data"},
      {Header({Entry("t", "U8", "1", "18446744073709551615,18446744073709551615")}), "x",
       "within the 1 bytes"},
      {Header({Entry("t", "F32", "1", "0,2")}), "xx",
       "F32 [1] takes 4 bytes, but data_offsets span 2"},
      {Header({Entry("t", "F32", "4611686018427387904,2", "0,0")}), "", "does not fit in 64 bits"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"order":"F"}})", "x",
       "tensor t.order is not known"},
      {Header({Entry("t", "U8", "1", "0,1"), Entry("t", "U8", "0", "1,1")}), "x",
       "\"t\" is present twice"},
      {R"({"t":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x",
       "\"dtype\" is present twice"},
      {Header({Entry("t", "U8", "2", "0,2"), Entry("u", "U8", "2", "1,3")}), "xxx",
       "tensor u begins at data offset 1, expected 2: it overlaps"},
      {Header({Entry("t", "U8", "1", "0,1"), Entry("u", "U8", "1", "2,3")}), "xxx",
       "tensor u begins at data offset 2, expected 1: there is a hole"},
      {Header({Entry("t", "U8", "1", "1,2")}), "xx",
       "tensor t begins at data offset 1, expected 0"},
      {Header({Entry("t", "U8", "1", "0,1")}), "xx", "take 1 bytes, but the data section has 2"},
      {R"({"__metadata__":{"a":1}})", "",
       "__metadata__ is {\"a\":1}, expected an object of strings"},
      {R"({"__metadata__":[]})", "", "__metadata__ is []"},
      {R"({"a\nb":1})", "", "tensor a\\nb is 1"},
      {R"({"t":{"dtype":"U8","shape":[[[[1]]]],"data_offsets":[0,1]}})", "x",
       "nested deeper than 4"},
  };
  for (const BadSafetensors& bad : cases) {
    const std::string bytes = File(bad.header, bad.data);
    EXPECT_THAT(ParseSafetensors(bytes),
                HasError(kInvalid, AllOf(HasSubstr("m.safetensors: "), HasSubstr(bad.expected))))
        << bad.header;
  }
}

TEST(SafetensorsTest, RefusesBadHeaderLengths) {
  EXPECT_THAT(ParseSafetensors(""),
              HasError(kInvalid, HasSubstr("the file is empty, so its download or copy did not")));
  EXPECT_THAT(ParseSafetensors("1234567"), HasError(kInvalid, HasSubstr("7 bytes")));
  const std::string too_long = ByteWriter().U64(3).Raw("{}").bytes();
  EXPECT_THAT(ParseSafetensors(too_long),
              HasError(kInvalid, HasSubstr("header's length is 3, but 2 bytes follow")));
  const std::string huge = ByteWriter().U64(~0ull).Raw("{}").bytes();
  EXPECT_THAT(ParseSafetensors(huge), HasError(kInvalid, HasSubstr("expected at most 100000000")));
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string bytes = File(Header({Entry("t", "F32", "2", "0,8")}), "12345678");
  ASSERT_THAT(ParseSafetensors(bytes), IsOk());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_THAT(ParseSafetensors(cut), HasError(kInvalid, HasSubstr("m.safetensors"))) << length;
  }
}

std::string OneTensor(std::string_view name) {
  return File(Header({Entry(name, "U8", "1", "0,1")}), name.substr(0, 1));
}

TEST(SafetensorsCheckpointTest, ReadsASingleFile) {
  const TempFolder folder;
  folder.Write("model.safetensors", OneTensor("x"));
  const absl::StatusOr<SafetensorsCheckpoint> checkpoint =
      SafetensorsCheckpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->TensorNames(), ElementsAre("x"));
  EXPECT_EQ(checkpoint->Find("x")->data[0], std::byte{'x'});
  EXPECT_EQ(checkpoint->Find("y"), nullptr);
}

TEST(SafetensorsCheckpointTest, ReadsShardsThroughTheIndex) {
  const TempFolder folder;
  folder.Write("s1.safetensors", OneTensor("z"));
  folder.Write("s2.safetensors", OneTensor("a"));
  folder.Write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":2},"weight_map":{"z":"s1.safetensors","a":"s2.safetensors"}})");
  const absl::StatusOr<SafetensorsCheckpoint> checkpoint =
      SafetensorsCheckpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(checkpoint->TensorNames(), ElementsAre("a", "z"));
  EXPECT_EQ(checkpoint->Find("a")->data[0], std::byte{'a'});
  EXPECT_EQ(checkpoint->Find("z")->data[0], std::byte{'z'});
}

TEST(SafetensorsCheckpointTest, RefusesFoldersThatDoNotAddUp) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors"}})",
       "puts tensor b into s1.safetensors, which does not have it"},
      {R"({"weight_map":{"a":"s1.safetensors","x":"s2.safetensors"}})", "tensor a is in both"},
      {R"({"weight_map":{"a":"missing.safetensors"}})",
       "1 of the 1 files that weight_map names are missing: missing.safetensors"},
      {R"({"weight_map":{"a":"../s1.safetensors"}})", "expected a file name without a folder"},
      {R"({"weight_map":{"a":".."}})", "expected a file name without a folder"},
      {R"({"weight_map":{"a":7}})", "weight_map.a is 7"},
      {R"({"weight_map":{}})", "weight_map is missing or empty"},
      {R"({"weight_map":[]})", "weight_map is missing or empty"},
      {R"([])", "weight_map is missing or empty"},
      {R"({)", "index.json: byte"}};
  for (const auto& [index, expected] : cases) {
    const TempFolder folder;
    folder.Write("s1.safetensors", OneTensor("a"));
    folder.Write("s2.safetensors",
                 File(Header({Entry("a", "U8", "1", "0,1"), Entry("x", "U8", "1", "1,2")}), "ax"));
    folder.Write("model.safetensors.index.json", index);
    const absl::Status status = SafetensorsCheckpoint::Open(folder.path()).status();
    EXPECT_FALSE(status.ok()) << index;
    EXPECT_THAT(Message(status), HasSubstr(expected)) << index;
  }
}

TEST(SafetensorsCheckpointTest, NamesWhatItLookedFor) {
  const TempFolder folder;
  EXPECT_THAT(SafetensorsCheckpoint::Open(folder.path()),
              HasError(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(folder.path()), HasSubstr("model.safetensors.index.json"))));
}

}  // namespace
}  // namespace lockstep
