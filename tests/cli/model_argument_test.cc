#include "cli/serve/model/model_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serve/model/hub_download.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelArgumentTest, KnowsNamesOfHuggingFace) {
  EXPECT_TRUE(IsHubName("Qwen/Qwen3-0.6B"));
  EXPECT_TRUE(IsHubName("a/b_c.d"));
  for (const char* const text :
       {"Qwen", "a/b/c", "./b", "../b", "/b", "a/", "a/b c", "-a/b", "a/model.gguf", "~/b", ""}) {
    EXPECT_FALSE(IsHubName(text)) << text;
  }
}

TEST(ModelArgumentTest, TakesGgufFilesAndFoldersWithAConfiguration) {
  const TempFolder folder;
  EXPECT_THAT(
      CheckModelPath(folder.path()),
      HasError(kInvalid, HasSubstr("is neither a GGUF file nor a folder with config.json")));
  folder.Write("config.json", "{}");
  EXPECT_THAT(CheckModelPath(folder.path()), IsOk());
  EXPECT_THAT(CheckModelPath(folder.Write("a.gguf", "")), IsOk());
  EXPECT_THAT(CheckModelPath(folder.Write("model", "GGUF")), IsOk());
  EXPECT_THAT(CheckModelPath(folder.Write("a.bin", "")), HasError(kInvalid, HasSubstr("a.bin is")));
  EXPECT_THAT(CheckModelPath(folder.path() + "/b"),
              HasError(absl::StatusCode::kNotFound, HasSubstr("/b: no such file or folder")));
}

TEST(HubDownloadTest, AsksForWhatIsRead) {
  EXPECT_THAT(DownloadCommand("/bin/hf", "org/name"),
              ElementsAre("/bin/hf", "download", "org/name", "--include", "*.[jst]*"));
}

TEST(HubDownloadTest, TheLastLineIsThePath) {
  EXPECT_EQ(PathOfDownload("Fetching\n/cache/models/snapshots/1\n\n"), "/cache/models/snapshots/1");
  EXPECT_EQ(PathOfDownload("path=/cache/a b\n"), "/cache/a b");
  EXPECT_EQ(PathOfDownload("Downloaded\n  path: /cache/a\n"), "/cache/a");
  EXPECT_EQ(PathOfDownload(""), "");
}

}  // namespace
}  // namespace lockstep::cli
