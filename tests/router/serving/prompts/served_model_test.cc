#include "router/serving/prompts/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/status.h"
#include "router/templates/template_engine.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/temp_folder.h"

namespace lockstep::router {
namespace {

using ::testing::EndsWith;

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

TEST(ServedModelTest, DefaultsThatNoRequestMayAskForAreAnErrorOfTheirFile) {
  EXPECT_TRUE(LoadWith(R"({"temperature": 0.001, "repetition_penalty": 10})").ok());
  EXPECT_THAT(Message(LoadWith(R"({"temperature": 1e-5})").status()),
              EndsWith("/generation_config.json: temperature: expected 0 or a number in [0.001, "
                       "100], got 1e-05"));
  EXPECT_THAT(Message(LoadWith(R"({"repetition_penalty": 11})").status()),
              EndsWith("/generation_config.json: repetition_penalty: expected a number in (0, 10], "
                       "got 11"));
  // Greedy decoding looks at no temperature.
  EXPECT_TRUE(LoadWith(R"({"do_sample": false, "temperature": 1e-5})").ok());
}

TEST(ServedModelTest, DefaultsOfAGgufFileAreNamed) {
  const TempFolder folder;
  const auto error = [&folder](GgufBuilder builder) {
    return Message(
        ServedModel::Load(folder.Write("tiny.gguf", builder.Build()), "", ParseTemplate).status());
  };
  EXPECT_THAT(error(TinyLlamaGguf().Float32("general.sampling.temp", 1e-5f)),
              EndsWith("/tiny.gguf: metadata key general.sampling.temp: expected 0 or a number in "
                       "[0.001, 100], got 1e-05"));
  EXPECT_THAT(
      error(TinyLlamaGguf().Float32("general.sampling.penalty_repeat", 11)),
      EndsWith("/tiny.gguf: metadata key general.sampling.penalty_repeat: expected a number "
               "in (0, 10], got 11"));
}

}  // namespace
}  // namespace lockstep::router
