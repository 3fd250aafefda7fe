// Which layers of a config.json have a window.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "common/runtime/mapped_file.h"
#include "tests/common/config_json.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// Families with the rules of two classes of transformers that are not served.
const ModelFamily& MinistralFamily() {
  static constexpr ModelFamily kFamily = {.name = "ministral",
                                          .architecture = "MinistralForCausalLM",
                                          .windows = {.layers = WindowLayers::kAll}};
  return kFamily;
}
const ModelFamily& Gemma3Family() {
  static constexpr ModelFamily kFamily = {
      .name = "gemma3_text",
      .architecture = "Gemma3ForCausalLM",
      .windows = {.layers = WindowLayers::kPattern, .default_pattern = 6}};
  return kFamily;
}

class WindowConfigTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    RegisterModelFamily(MinistralFamily());
    RegisterModelFamily(Gemma3Family());
    RegisterModelFamily(Gemma3Family());  // does nothing
  }
};

Json FamilyJson(const std::string& family) {
  return BaseJson(FindModelFamily(family)->architecture, family);
}

std::vector<uint32_t> WindowsOf(const ModelConfig& config) {
  std::vector<uint32_t> windows;
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    const uint8_t kind = config.kind_of_layer.empty() ? 0 : config.kind_of_layer[layer];
    windows.push_back(config.layer_kinds.empty() ? 0 : config.layer_kinds[kind].window_tokens);
  }
  return windows;
}

// Calls `visit` with the changes of each case of an entry of windows.json, in its order.
void ForEachCase(const Json& keys, const std::function<void(const Json& change)>& visit) {
  std::vector<std::string> names;
  // As the script lists them; the object here is sorted.
  for (const char* const name : {"max_position_embeddings", "use_sliding_window", "sliding_window",
                                 "sliding_window_pattern", "max_window_layers", "layer_types"}) {
    if (keys.contains(name)) names.emplace_back(name);
  }
  ASSERT_EQ(names.size(), keys.size());
  std::vector<size_t> choice(names.size(), 0);
  while (true) {
    Json change;
    for (size_t i = 0; i < names.size(); ++i) change[names[i]] = keys[names[i]][choice[i]];
    visit(change);
    size_t key = names.size();
    while (key > 0 && ++choice[key - 1] == keys[names[key - 1]].size()) choice[--key] = 0;
    if (key == 0) return;
  }
}

TEST_F(WindowConfigTest, EachCombinationOfKeysMeansWhatTransformersComputes) {
  const absl::StatusOr<std::string> text =
      ReadTextFile("tests/golden/configs/windows.json", 1 << 24);
  ASSERT_THAT(text, IsOk());
  size_t num_cases = 0;
  for (const Json& entry : Json::parse(*text)) {
    size_t index = 0;
    ForEachCase(entry["keys"], [&](const Json& change) {
      const Json& expected = entry["windows"].at(index++);
      SCOPED_TRACE(entry["family"].dump() + " " + change.dump());
      const Json base =
          With(FamilyJson(entry["family"]), {{"num_hidden_layers", entry["num_layers"]}});
      const absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(base, change));
      if (expected == "refused") {
        // transformers fails where a layer has a window and the switch is off. A window of the
        // whole context changes nothing either way.
        const Json& window = change["sliding_window"];
        if (window.is_number() && window >= change["max_position_embeddings"]) {
          ASSERT_THAT(config, IsOk());
          EXPECT_THAT(config->layer_kinds, IsEmpty());
          return;
        }
        EXPECT_THAT(config, HasError(kInvalid, HasSubstr("models/tiny/config.json: ")));
        return;
      }
      ASSERT_THAT(config, IsOk());
      EXPECT_EQ(Json(WindowsOf(*config)), expected);
      EXPECT_THAT(config->warnings, IsEmpty());
    });
    EXPECT_EQ(index, entry["windows"].size());
    num_cases += index;
  }
  EXPECT_EQ(num_cases, 1534u);
}

TEST_F(WindowConfigTest, KindsAreListedOnlyWhereLayersDiffer) {
  const Json window = {{"use_sliding_window", true}, {"sliding_window", 32}};
  const Json base = With(Qwen3Json(), window);
  absl::StatusOr<ModelConfig> config = ReadJsonConfig(With(base, {{"max_window_layers", 1}}));
  ASSERT_THAT(config, IsOk());
  const LayerKindConfig full = {.window_tokens = 0, .rope = config->rope};
  const LayerKindConfig local = {.window_tokens = 32, .rope = config->rope};
  EXPECT_THAT(config->layer_kinds, ElementsAre(full, local));
  EXPECT_THAT(config->kind_of_layer, ElementsAre(0, 1, 1));

  config = ReadJsonConfig(With(base, {{"max_window_layers", 0}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->layer_kinds, ElementsAre(local));
  EXPECT_THAT(config->kind_of_layer, IsEmpty());

  config = ReadJsonConfig(With(base, {{"max_window_layers", 3}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->layer_kinds, IsEmpty());
  EXPECT_THAT(config->kind_of_layer, IsEmpty());
  EXPECT_EQ(config->Fingerprint(), ReadJsonConfig(Qwen3Json())->Fingerprint());

  config = ReadJsonConfig(
      With(base, {{"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->layer_kinds, ElementsAre(local, full));
  EXPECT_THAT(config->kind_of_layer, ElementsAre(0, 1, 0));
}

TEST_F(WindowConfigTest, WithoutMaxWindowLayersTheFirst28LayersReadAll) {
  const absl::StatusOr<ModelConfig> config = ReadJsonConfig(
      With(Qwen2Json(),
           {{"num_hidden_layers", 30}, {"use_sliding_window", true}, {"sliding_window", 32}}));
  ASSERT_THAT(config, IsOk());
  const std::vector<uint32_t> windows = WindowsOf(*config);
  EXPECT_EQ(std::count(windows.begin(), windows.begin() + 28, 0u), 28);
  EXPECT_EQ(windows[28], 32u);
  EXPECT_EQ(windows[29], 32u);
}

// A window is compared with the context that the scaling of positions gives.
TEST_F(WindowConfigTest, AWindowOfTheUnscaledContextIsAWindow) {
  const absl::StatusOr<ModelConfig> config = ReadJsonConfig(
      With(Qwen2Json(),
           {{"use_sliding_window", true},
            {"sliding_window", 2048},
            {"max_window_layers", 0},
            {"rope_scaling",
             {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 2048}}}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->max_context_tokens, 8192u);
  EXPECT_THAT(WindowsOf(*config), ElementsAre(2048, 2048, 2048));
  ASSERT_EQ(config->layer_kinds.size(), 1u);
  EXPECT_EQ(config->layer_kinds[0].rope, config->rope);
}

struct BadWindow {
  Json config;
  const char* expected;
};

TEST_F(WindowConfigTest, ErrorsNameTheKeyAndTheLayer) {
  const Json on = {{"use_sliding_window", true}, {"sliding_window", 32}};
  const Json types = {"full_attention", "full_attention", "sliding_attention"};
  const BadWindow cases[] = {
      {With(With(Qwen2Json(), on), {{"layer_types", {"full_attention", "chunked_attention", "x"}}}),
       "layer_types[1] is \"chunked_attention\", expected \"full_attention\" or "
       "\"sliding_attention\""},
      {With(With(Qwen2Json(), on), {{"layer_types", {"full_attention", "full_attention", 3}}}),
       "layer_types[2] is 3, expected"},
      {With(With(Qwen2Json(), on), {{"layer_types", {"full_attention"}}}),
       "layer_types is [\"full_attention\"], expected a type for each of the 3 layers"},
      {With(With(Qwen2Json(), on), {{"layer_types", "full_attention"}}), "layer_types is \"full"},
      {With(Qwen2Json(), {{"layer_types", types}}),
       "use_sliding_window is not true, but layer 2 has a window"},
      {With(Qwen2Json(),
            {{"use_sliding_window", true}, {"sliding_window", nullptr}, {"layer_types", types}}),
       "sliding_window is null, but layer 2 has a window; expected an integer > 0"},
      {With(With(Qwen2Json(), on), {{"sliding_window", 0}, {"max_window_layers", 1}}),
       "sliding_window is 0, but layer 1 has a window"},
      {With(With(Qwen2Json(), on), {{"max_window_layers", -1}}), "max_window_layers is -1"},
      {With(Qwen2Json(), {{"use_sliding_window", 1}}), "use_sliding_window is 1, expected true"},
      {With(LlamaJson(), {{"sliding_window", 32}}),
       "sliding_window is 32: attention over a sliding window is not supported for llama"},
      {With(LlamaJson(), {{"layer_types", types}}),
       "layer_types[2] is \"sliding_attention\": attention over a sliding window is not supported "
       "for llama"},
      {With(FamilyJson("gemma3_text"), {{"sliding_window_pattern", 0}}),
       "sliding_window_pattern is 0, expected an integer > 0"},
      {With(Qwen3Json(), {{"sliding_window_pattern", 2}}),
       "sliding_window_pattern is 2, which would alter the result"}};
  for (const BadWindow& entry : cases) {
    EXPECT_THAT(ReadJsonConfig(entry.config), HasError(kInvalid, HasSubstr(entry.expected)));
  }
}

TEST_F(WindowConfigTest, AFamilyMayRotateLayersWithAWindowDifferently) {
  static constexpr ModelFamily kFamily = {.name = "two-rotations",
                                          .architecture = "TwoRotationsForCausalLM",
                                          .windows = {.layers = WindowLayers::kPattern,
                                                      .default_window = 32,
                                                      .default_pattern = 3,
                                                      .rope_theta_key = "rope_local_base_freq",
                                                      .default_rope_theta = 500.0}};
  RegisterModelFamily(kFamily);
  const Json base =
      With(FamilyJson("two-rotations"),
           {{"rope_theta", 1e6}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}});
  absl::StatusOr<ModelConfig> config = ReadJsonConfig(base);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_THAT(config->layer_kinds,
              ElementsAre(LayerKindConfig{.window_tokens = 32, .rope = {.theta = 500.0}},
                          LayerKindConfig{.window_tokens = 0, .rope = config->rope}));
  EXPECT_THAT(config->kind_of_layer, ElementsAre(0, 0, 1));
  EXPECT_THAT(config->warnings, IsEmpty());

  // A window of the whole context is none. The rotation still differs.
  config = ReadJsonConfig(With(base, {{"sliding_window", 4096}, {"rope_local_base_freq", 20}}));
  ASSERT_THAT(config, IsOk());
  ASSERT_EQ(config->layer_kinds.size(), 2u);
  EXPECT_EQ(config->layer_kinds[0], (LayerKindConfig{.window_tokens = 0, .rope = {.theta = 20.0}}));

  EXPECT_THAT(ReadJsonConfig(With(base, {{"rope_local_base_freq", 0}})),
              HasError(kInvalid, HasSubstr("kind 0 of layers: rope theta is 0")));
  EXPECT_THAT(ReadJsonConfig(With(LlamaJson(), {{"rope_local_base_freq", 20}})),
              HasError(kInvalid, HasSubstr("rope_local_base_freq is 20, which would alter")));
}

using ModelFamilyDeathTest = WindowConfigTest;

TEST_F(ModelFamilyDeathTest, ANameIsRegisteredOnce) {
  static constexpr ModelFamily kTaken = {.name = "qwen2", .architecture = "OtherForCausalLM"};
  EXPECT_DEATH(RegisterModelFamily(kTaken), "a family 'qwen2' for Qwen2ForCausalLM is there");
}

}  // namespace
}  // namespace lockstep
