// The config.json and generation_config.json of published models, each with what must come of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "common/model_files/model_config.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

Json ReadGolden(const std::string& name) {
  const absl::StatusOr<std::string> text = ReadTextFile("tests/golden/configs/" + name, 1 << 24);
  EXPECT_THAT(text, IsOk());
  return Json::parse(text.value_or("[]"));
}

absl::StatusOr<ModelConfig> Load(const Json& config, const Json& model) {
  const auto generation = model.find("generation_config");
  return ModelConfigFromJson(config.dump(), generation == model.end() ? "" : generation->dump(),
                             "models/" + model["name"].get<std::string>());
}

TEST(PublishedConfigsTest, EachLoadsWithItsContextAndItsEnds) {
  const Json models = ReadGolden("published.json");
  EXPECT_GE(models.size(), 100u);
  for (const Json& model : models) {
    SCOPED_TRACE(model["name"]);
    const absl::StatusOr<ModelConfig> config = Load(model["config"], model);
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->max_context_tokens, model["context"]);
    EXPECT_EQ(config->eos_token_ids, model["ends"].get<std::vector<TokenId>>());
    const std::string warnings = fmt::format("{}", fmt::join(config->warnings, "\n"));
    const Json expected = model.value("warns", Json::array());
    if (expected.empty()) {
      EXPECT_THAT(warnings, IsEmpty());
    }
    for (const Json& part : expected) EXPECT_THAT(warnings, HasSubstr(part.get<std::string>()));
  }
}

// transformers 4 and 5 write more keys, other names and other values than were published.
TEST(PublishedConfigsTest, MeanTheSameAfterTransformersSavedThem) {
  std::map<std::string, Json> published;
  for (const Json& model : ReadGolden("published.json")) published[model["name"]] = model;
  const Json saved = ReadGolden("saved_by_transformers.json");
  EXPECT_GE(saved.size(), 50u);
  for (const Json& entry : saved) {
    SCOPED_TRACE(fmt::format("{} by transformers {}", entry["name"].get<std::string>(),
                             entry["version"].get<int>()));
    const Json& model = published.at(entry["name"]);
    const absl::StatusOr<ModelConfig> original = Load(model["config"], model);
    const absl::StatusOr<ModelConfig> config = Load(entry["config"], model);
    ASSERT_THAT(original, IsOk());
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->Fingerprint(), original->Fingerprint());
    EXPECT_EQ(config->max_context_tokens, original->max_context_tokens);
    EXPECT_EQ(config->eos_token_ids, original->eos_token_ids);
  }
}

}  // namespace
}  // namespace lockstep
