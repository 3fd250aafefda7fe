#include "common/model_files/safetensors_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

const std::vector<TensorSpec> kSpecs = {{"b", SafetensorsDtype::kI32, {2, 3}},
                                        {"a \"quoted\"", SafetensorsDtype::kU8, {5}},
                                        {"scalar", SafetensorsDtype::kF32, {}},
                                        {"empty", SafetensorsDtype::kBF16, {0, 4}}};

TEST(SafetensorsWriterTest, TheReaderReadsWhatItWrote) {
  const TempFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  auto writer = SafetensorsWriter::Create(path, kSpecs, {{"format", "pt"}});
  ASSERT_THAT(writer, IsOk());
  for (const TensorSpec& spec : kSpecs) {
    ASSERT_THAT(writer->Append(spec, Bytes(spec.num_bytes(), 7)), IsOk());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_THAT(writer->Finish(), IsOk());
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_THAT(file, IsOk());
  for (const TensorSpec& spec : kSpecs) {
    const SafetensorsTensor* const tensor = file->Find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_EQ(tensor->dtype, spec.dtype);
    EXPECT_EQ(tensor->shape, spec.shape);
    const std::vector<std::byte> expected = Bytes(spec.num_bytes(), 7);
    EXPECT_TRUE(
        std::equal(tensor->data.begin(), tensor->data.end(), expected.begin(), expected.end()));
  }
}

TEST(SafetensorsWriterTest, AnUnfinishedFileIsRemoved) {
  const TempFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  {
    auto writer = SafetensorsWriter::Create(path, kSpecs, {});
    ASSERT_THAT(writer, IsOk());
    EXPECT_TRUE(std::filesystem::exists(path + ".partial"));
    EXPECT_THAT(writer->Append(kSpecs[1], Bytes(5, 0)),
                HasError(absl::StatusCode::kInternal, HasSubstr("is not the next")));
    EXPECT_THAT(writer->Append(kSpecs[0], Bytes(23, 0)),
                HasError(absl::StatusCode::kInternal, HasSubstr("has 23 bytes, expected 24")));
    EXPECT_THAT(writer->Finish(),
                HasError(absl::StatusCode::kInternal, HasSubstr("tensor b was not written")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriterTest, OverwritesNothing) {
  const TempFolder folder;
  const std::string path = folder.Write("model.safetensors", "mine");
  EXPECT_THAT(SafetensorsWriter::Create(path, kSpecs, {}),
              HasError(absl::StatusCode::kAlreadyExists, HasSubstr("exists already")));
  EXPECT_THAT(SafetensorsWriter::Create(folder.path() + "/no/such/folder", kSpecs, {}),
              HasError(absl::StatusCode::kInternal, HasSubstr("cannot create")));
}

}  // namespace
}  // namespace lockstep
