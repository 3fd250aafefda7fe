#include "router/serving/prompts/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "router/templates/template_engine.h"
#include "tests/common/temp_folder.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

constexpr char kTinyLlama[] = "tests/golden/tiny-llama";

// The tiny model with other sampling defaults.
absl::StatusOr<ServedModel> LoadWith(const std::string& generation_config) {
  const TempFolder folder;
  for (const char* const file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(std::filesystem::path(kTinyLlama) / file,
                               std::filesystem::path(folder.path()) / file);
  }
  folder.Write("generation_config.json", generation_config);
  return ServedModel::Load(folder.path(), "", ParseTemplate);
}

TEST(ServedModelTest, IsCalledAfterItsFolderUnlessNamed) {
  const absl::StatusOr<ServedModel> model = ServedModel::Load(kTinyLlama, "", ParseTemplate);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->id, "tiny-llama");
  EXPECT_EQ(ServedModel::Load(kTinyLlama, "mine", ParseTemplate)->id, "mine");
}

TEST(ServedModelTest, TheCurrentFolderHasItsOwnName) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(kTinyLlama);
  const absl::StatusOr<ServedModel> model = ServedModel::Load(".", "", ParseTemplate);
  std::filesystem::current_path(before);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->id, "tiny-llama");
}

TEST(ServedModelTest, DefaultsThatNoRequestMayAskForAreLeftOutWithAWarning) {
  EXPECT_THAT(LoadWith(R"({"temperature": 0.001, "repetition_penalty": 10})")->config.warnings,
              IsEmpty());
  const absl::StatusOr<ServedModel> model = LoadWith(R"({"repetition_penalty": 11})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.generation_defaults.repetition_penalty, 1.0f);
  EXPECT_THAT(model->config.warnings,
              ElementsAre(EndsWith("/generation_config.json: repetition_penalty is 11, expected a "
                                   "number in (0, 10]: this default is ignored")));
}

}  // namespace
}  // namespace lockstep::router
