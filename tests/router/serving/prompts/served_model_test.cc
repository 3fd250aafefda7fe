#include "router/serving/prompts/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/status.h"
#include "tests/common/temp_folder.h"
#include "tests/router/templates/test_templates.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::LoadTestTemplate;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
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
  return ServedModel::Load(folder.path(), "", LoadTestTemplate);
}

TEST(ServedModelTest, IsCalledAfterItsFolderUnlessNamed) {
  const absl::StatusOr<ServedModel> model = ServedModel::Load(kTinyLlama, "", LoadTestTemplate);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->id, "tiny-llama");
  EXPECT_EQ(ServedModel::Load(kTinyLlama, "mine", LoadTestTemplate)->id, "mine");
}

TEST(ServedModelTest, ItsOutputFormatIsDetectedOrSet) {
  absl::StatusOr<ServedModel> model = ServedModel::Load(kTinyLlama, "", LoadTestTemplate);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->output_format, nullptr);
  EXPECT_EQ(model->SetOutputFormat("hermes"), absl::OkStatus());
  EXPECT_EQ(NameOf(*model->output_format), "hermes");
  EXPECT_EQ(model->SetOutputFormat("auto"), absl::OkStatus());
  EXPECT_EQ(NameOf(*model->output_format), "hermes");
  EXPECT_THAT(Message(model->SetOutputFormat("other")), HasSubstr("hermes"));
  EXPECT_EQ(model->SetOutputFormat("none"), absl::OkStatus());
  EXPECT_EQ(model->output_format, nullptr);
}

TEST(ServedModelTest, TheCurrentFolderHasItsOwnName) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(kTinyLlama);
  const absl::StatusOr<ServedModel> model = ServedModel::Load(".", "", LoadTestTemplate);
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

// The tiny model with this template.
absl::StatusOr<ServedModel> LoadWithTemplate(const std::string& chat_template,
                                             const TemplateLoader& loader = LoadTestTemplate) {
  const TempFolder folder;
  for (const char* const file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(std::filesystem::path(kTinyLlama) / file,
                               std::filesystem::path(folder.path()) / file);
  }
  folder.Write("chat_template.jinja", chat_template);
  return ServedModel::Load(folder.path(), "", loader);
}

TEST(ServedModelTest, ATemplateThatCannotBeUsedCostsChatsOnly) {
  for (const auto& [source, problem] :
       {std::pair("a\n{% if %}", "line 2"), std::pair("{{ 'x' * 10 ** 9 }}", "needs more than")}) {
    const absl::StatusOr<ServedModel> model = LoadWithTemplate(source);
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_NE(model->chat_template, nullptr);
    const std::vector<ChatMessage> chat = {{.role = "user", .content = "Hi", .name = ""}};
    const auto rendered = model->chat_template->Render(chat, {});
    EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(rendered.status()), HasSubstr("chat template cannot be used"));
    EXPECT_THAT(Message(rendered.status()), HasSubstr(problem));
  }
}

TEST(ServedModelTest, WithoutARendererThereIsNoServer) {
  const auto none = [](const TemplateSource&) {
    return absl::UnavailableError("python3 has no Jinja2");
  };
  EXPECT_THAT(Message(LoadWithTemplate("x", none).status()), HasSubstr("python3 has no Jinja2"));
}

}  // namespace
}  // namespace lockstep::router
