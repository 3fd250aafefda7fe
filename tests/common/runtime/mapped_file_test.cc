#include "common/runtime/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(MappedFileTest, MapsTheWholeFile) {
  const TempFolder folder;
  const std::string content = std::string(10000, 'a') + '\0' + "end";
  const std::string path = folder.Write("data", content);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(Text(file->bytes()), content);
  EXPECT_EQ(file->path(), path);
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(folder.Write("empty", ""));
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, TheBytesSurviveMovesAndTheFilesRemoval) {
  const TempFolder folder;
  const std::string path = folder.Write("data", "first");
  absl::StatusOr<MappedFile> opened = MappedFile::Open(path);
  ASSERT_THAT(opened, IsOk());
  const std::byte* address = opened->bytes().data();
  MappedFile moved = *std::move(opened);
  EXPECT_EQ(moved.bytes().data(), address);

  absl::StatusOr<MappedFile> other = MappedFile::Open(folder.Write("other", "second"));
  ASSERT_THAT(other, IsOk());
  *other = std::move(moved);
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(other->bytes().data(), address);
  EXPECT_EQ(Text(other->bytes()), "first");
}

TEST(MappedFileTest, ErrorsNameThePath) {
  const TempFolder folder;
  const std::string missing = folder.path() + "/missing";
  EXPECT_THAT(MappedFile::Open(missing), HasError(absl::StatusCode::kNotFound, HasSubstr(missing)));
  EXPECT_THAT(MappedFile::Open(folder.Write("f", "") + "/x"),
              HasError(absl::StatusCode::kNotFound, HasSubstr("/f/x")));
  EXPECT_THAT(MappedFile::Open(folder.path()),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(folder.path()), HasSubstr("not a regular file"))));
}

TEST(MappedFileTest, AFifoIsRefusedWithoutWaitingForItsWriter) {
  const TempFolder folder;
  const std::string path = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::Open(path),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(ReadTextFileTest, ReadsUpToTheLimit) {
  const TempFolder folder;
  const std::string path = folder.Write("text", "12345");
  EXPECT_EQ(*ReadTextFile(path, 5), "12345");
  EXPECT_THAT(ReadTextFile(path, 4),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path), HasSubstr("5 bytes, expected at most 4"))));
  EXPECT_THAT(ReadTextFile(path + "x", 4), HasError(absl::StatusCode::kNotFound, HasSubstr(path)));
}

}  // namespace
}  // namespace lockstep
