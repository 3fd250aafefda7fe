// Outputs of gpt-oss, as OpenAI's own parser reads them (tests/golden/tool_calls/harmony.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kFunctions = "functions.";

// The parts of these messages, joined.
Parts PartsOf(const nlohmann::json& messages) {
  Parts parts;
  const auto add = [&](OutputPart::Kind kind, const std::string& text) {
    if (text.empty()) return;
    if (!parts.empty() && parts.back().kind == kind) {
      parts.back().text += text;
    } else {
      parts.push_back({kind, text});
    }
  };
  for (const nlohmann::json& message : messages) {
    const std::string recipient = message["recipient"];
    const std::string text = message["text"];
    if (recipient.starts_with(kFunctions)) {
      parts = std::move(parts) + Call(recipient.substr(kFunctions.size()), text);
    } else {
      add(message["channel"] == "analysis" ? OutputPart::Kind::kReasoning
                                           : OutputPart::Kind::kContent,
          text);
    }
  }
  return parts;
}

TEST(HarmonyGoldenTest, ReadsWhatOpenAisParserReads) {
  std::ifstream file("tests/golden/tool_calls/harmony.json");
  const auto golden = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(golden.is_object());
  ASSERT_GE(golden["cases"].size(), 100U);
  for (const nlohmann::json& item : golden["cases"]) {
    const std::string output = item["output"];
    const Parts expected = PartsOf(item["messages"]);
    for (const auto& pieces : {CutAt(output, {}), EachByte(output)}) {
      const Parts parts = Parse(**FindOutputFormat("harmony"), pieces).parts;
      EXPECT_EQ(parts, expected) << output << "\ngot:\n"
                                 << Describe(parts) << "expected:\n"
                                 << Describe(expected);
    }
  }
}

}  // namespace
}  // namespace lockstep::router
