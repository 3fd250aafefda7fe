#include "router/calls/output_format.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "router/calls/output_format_table.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

// A tokenizer with these added tokens and this template.
std::unique_ptr<const Tokenizer> MakeTokenizer(const std::vector<std::string>& tokens,
                                               const nlohmann::json& chat_template) {
  nlohmann::json definition = TinyTokenizerJson();
  uint32_t id = 300;
  for (const std::string& token : tokens) {
    nlohmann::json added = definition["added_tokens"][0];
    added["id"] = id++;
    added["content"] = token;
    definition["added_tokens"].push_back(added);
  }
  auto tokenizer = LoadTiny(definition, {{"chat_template", chat_template}});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string Detected(const std::vector<std::string>& tokens, const std::string& chat_template) {
  const OutputFormat* format = DetectOutputFormat(*MakeTokenizer(tokens, chat_template));
  return format ? std::string(NameOf(*format)) : "none";
}

bool IsOpen(std::string_view format, std::string_view tail) {
  return LeavesReasoningOpen(**FindOutputFormat(format), tail);
}

TEST(OutputFormatTest, FindsByName) {
  for (const OutputFormat& format : OutputFormats()) {
    const auto found = FindOutputFormat(format.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &format);
  }
  const absl::Status missing = FindOutputFormat("hermes3").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_NE(missing.message().find("\"hermes3\""), std::string::npos);
  EXPECT_NE(missing.message().find("hermes, pythonic, llama3"), std::string::npos) << missing;
}

TEST(OutputFormatTest, SaysWhatItFinds) {
  EXPECT_TRUE(HasCalls(**FindOutputFormat("hermes")));
  EXPECT_TRUE(HasReasoning(**FindOutputFormat("hermes")));
  EXPECT_TRUE(HasCalls(**FindOutputFormat("llama3")));
  EXPECT_FALSE(HasReasoning(**FindOutputFormat("llama3")));
  EXPECT_FALSE(HasCalls(**FindOutputFormat("think")));
  EXPECT_TRUE(HasReasoning(**FindOutputFormat("think")));
}

// What the parser relies on in each row.
TEST(OutputFormatTest, RowsAreSound) {
  std::set<std::string_view> names;
  for (const OutputFormat& format : OutputFormats()) {
    SCOPED_TRACE(format.name);
    EXPECT_TRUE(names.insert(format.name).second);
    EXPECT_EQ(format.think_open.empty(), format.think_end.empty());
    EXPECT_FALSE(format.in_template[0].empty());
    const CallTags& tags = format.tags;
    // Markers that are looked for at the same time: none contains another.
    const std::vector<std::string_view> markers = {format.think_open, format.think_end,
                                                   tags.block_open,   tags.block_end,
                                                   tags.call_open,    format.whole_message};
    for (const std::string_view a : markers) {
      for (const std::string_view b : markers) {
        if (a.empty() || b.empty() || &a == &b || a == b || b == format.whole_message) continue;
        if (format.style == CallStyle::kHarmony) continue;
        EXPECT_EQ(a.find(b), std::string_view::npos) << a << " " << b;
      }
    }
    if (format.style != CallStyle::kTagged) continue;
    EXPECT_FALSE(tags.call_open.empty());
    EXPECT_FALSE(tags.call_end.empty());
    const bool has_parameters = format.arguments == ArgumentStyle::kParameters;
    EXPECT_EQ(has_parameters, !tags.key_open.empty());
    EXPECT_EQ(has_parameters, !tags.key_end.empty());
    EXPECT_EQ(has_parameters, !tags.value_end.empty());
  }
}

TEST(OutputFormatTest, MarkersMayBeParts) {
  const OutputFormat& deepseek = **FindOutputFormat("deepseek_v3");
  EXPECT_TRUE(IsMarker(deepseek, "<｜tool▁sep｜>"));
  EXPECT_TRUE(IsMarker(deepseek, "</think>"));
  EXPECT_FALSE(IsMarker(deepseek, "<｜end▁of▁sentence｜>"));
  EXPECT_FALSE(IsMarker(deepseek, ""));
  EXPECT_TRUE(IsMarker(**FindOutputFormat("gemma4"), "<|\"|>"));
  EXPECT_TRUE(IsMarker(**FindOutputFormat("gemma4"), "<|tool_call>"));
  EXPECT_TRUE(IsMarker(**FindOutputFormat("harmony"), "<|constrain|>"));
  EXPECT_FALSE(IsMarker(**FindOutputFormat("hermes"), "<|im_end|>"));
}

// --- detection: the words that published templates have ---

constexpr const char* kQwen3 =
    "return a json object with function name and arguments within <tool_call></tool_call> XML tags:"
    "\\n<tool_call>\\n{\\\"name\\\": <function-name>, \\\"arguments\\\": <args-json-object>}"
    "\\n</tool_call> {{- '<think>\\n\\n</think>\\n\\n' }}";
constexpr const char* kQwen3Coder =
    "<tool_call>\\n<function=example_function_name>\\n<parameter=example_parameter_1>\\nvalue_1"
    "\\n</parameter>\\n</function>\\n</tool_call> arguments";
constexpr const char* kLlama31 =
    "{{- 'Respond in the format {\"name\": function name, \"parameters\": dictionary of argument "
    "name and its value}.' }} Environment: ipython {{- \"<|python_tag|>\" + tool_call.name }}";
constexpr const char* kDeepSeekV3 =
    "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + "
    "tool['function']['name'] + '\\n' + '```json' + '\\n' }}";
constexpr const char* kDeepSeekV31 =
    "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'+ tool['function']['name'] + '<｜tool▁sep｜>' "
    "+ "
    "tool['function']['arguments'] + '<｜tool▁call▁end｜>'}}{{'<think>'}}";

TEST(DetectOutputFormatTest, PublishedTemplates) {
  EXPECT_EQ(Detected({"<tool_call>", "<think>"}, kQwen3), "hermes");
  EXPECT_EQ(Detected({"<tool_call>"}, kQwen3Coder), "qwen3_coder");
  EXPECT_EQ(Detected({"<|python_tag|>"}, kLlama31), "llama3");
  EXPECT_EQ(Detected({"<｜tool▁call▁begin｜>"}, kDeepSeekV3), "deepseek_v3");
  EXPECT_EQ(Detected({"<｜tool▁call▁begin｜>"}, kDeepSeekV31), "deepseek_v31");
  EXPECT_EQ(Detected({}, "a \\\"<{{ dsml_token }}function_calls>\\\" dsml_token = \"｜DSML｜\""),
            "deepseek_v32");
  EXPECT_EQ(Detected({"[TOOL_CALLS]"}, "{{- \"[TOOL_CALLS][\" }}"), "mistral");
  EXPECT_EQ(Detected({"<|channel|>", "<|message|>"},
                     "{{- \"<|start|>assistant<|channel|>analysis<|message|>\" }}"),
            "harmony");
  EXPECT_EQ(Detected({"<tool_call>"},
                     "<tool_call>{function-name}\\n<arg_key>{arg-key-1}</arg_key> arguments"),
            "glm47");
  EXPECT_EQ(Detected({}, "Use exact format: [func_name1(param1=value1, param2=value2)]"),
            "pythonic");
  EXPECT_EQ(Detected({"<|tool_call>"}, "{{- '<|tool_call>call:' + name }}"), "gemma4");
  EXPECT_EQ(Detected({"<|tool_call_begin|>"}, "{{- '<|tool_call_begin|>' }}"), "kimi_k2");
  EXPECT_EQ(Detected({}, "<minimax:tool_call>\\n<invoke name=\"tool-name-1\">"), "minimax_m2");
}

TEST(DetectOutputFormatTest, TheTokensOfLlama4) {
  EXPECT_EQ(Detected({"<|python_start|>"}, kLlama31), "llama4");
}

TEST(DetectOutputFormatTest, OnlyReasoning) {
  EXPECT_EQ(Detected({"<think>"}, "{% if '</think>' in content %}{{ '<think>\\n' }}{% endif %}"),
            "think");
}

TEST(DetectOutputFormatTest, AMarkerThatTheVocabularyLacks) {
  // A smaller model with the template of a large one, and a vocabulary of its own.
  EXPECT_EQ(Detected({}, std::string(kDeepSeekV3) + "</think>"), "think");
  EXPECT_EQ(Detected({}, kLlama31), "none");
}

TEST(DetectOutputFormatTest, NothingIsKnown) {
  EXPECT_EQ(Detected({"<tool_call>"}, "{{ messages }}"), "none");
  EXPECT_EQ(Detected({}, ""), "none");
}

TEST(DetectOutputFormatTest, ATemplateForTools) {
  const nlohmann::json templates = {{{"name", "default"}, {"template", "{{ messages }}"}},
                                    {{"name", "tool_use"}, {"template", kQwen3}}};
  const OutputFormat* format = DetectOutputFormat(*MakeTokenizer({"<tool_call>"}, templates));
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(NameOf(*format), "hermes");
}

// --- the end of a prompt ---

TEST(LeavesReasoningOpenTest, TheMarkerIsLast) {
  EXPECT_TRUE(IsOpen("hermes", "<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(IsOpen("think", "<｜Assistant｜><think>"));
  EXPECT_TRUE(IsOpen("glm47", "<|assistant|><think>"));
  EXPECT_TRUE(IsOpen("mistral", "[/INST][THINK]"));
  EXPECT_TRUE(IsOpen("harmony", "<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_TRUE(IsOpen("gemma4", "<|turn>model\n<|channel>thought\n"));
}

TEST(LeavesReasoningOpenTest, TheTemplateClosedIt) {
  EXPECT_FALSE(IsOpen("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(IsOpen("glm47", "<|assistant|>\n<think></think>"));
  EXPECT_FALSE(IsOpen("glm47", "<|assistant|></think>"));
  EXPECT_FALSE(IsOpen("deepseek_v31", "<｜Assistant｜></think>"));
  EXPECT_FALSE(IsOpen("gemma4", "<|turn>model\n<|channel>thought\n<channel|>"));
}

TEST(HasEndedReasoningTest, TheMarkerIsLast) {
  const auto has_ended = [](std::string_view format, std::string_view tail) {
    return HasEndedReasoning(**FindOutputFormat(format), tail);
  };
  EXPECT_TRUE(has_ended("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_TRUE(has_ended("deepseek_v31", "<｜Assistant｜></think>"));
  EXPECT_FALSE(has_ended("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\nThe"));
  EXPECT_FALSE(has_ended("hermes", "<|im_start|>assistant\n"));
  EXPECT_FALSE(has_ended("harmony", "<|start|>assistant"));
  EXPECT_FALSE(has_ended("llama3", ""));
}

TEST(LeavesReasoningOpenTest, NoMarker) {
  EXPECT_FALSE(IsOpen("hermes", "<|im_start|>assistant\n"));
  EXPECT_FALSE(IsOpen("hermes", ""));
  EXPECT_FALSE(IsOpen("llama3", "<think>\n"));
}

TEST(LeavesReasoningOpenTest, AMarkerInAnEarlierTurn) {
  EXPECT_FALSE(IsOpen("hermes", "<think><|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_FALSE(IsOpen("think", "What is <think>?<｜Assistant｜>"));
}

TEST(LeavesReasoningOpenTest, TheModelsOwnMessageGoesOn) {
  EXPECT_TRUE(IsOpen("hermes", "<|im_start|>assistant\n<think>\nFirst I"));
  EXPECT_FALSE(IsOpen("hermes", "<|im_start|>assistant\n<think>\nHm.\n</think>\n\nThe"));
}

}  // namespace
}  // namespace lockstep::router
