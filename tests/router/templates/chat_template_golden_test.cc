// Prompts equal to those of Jinja, set up as transformers does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/status.h"
#include "router/templates/template_engine.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

TEST(ChatTemplateGoldenTest, PromptsEqualJinja) {
  const auto cases =
      nlohmann::ordered_json::parse(ReadGoldenFile("chat_templates.json"), nullptr, false);
  ASSERT_TRUE(cases.is_array());
  size_t num_errors = 0;
  for (const auto& golden : cases) {
    const std::string source = golden["template"];
    std::vector<ChatMessage> messages;
    for (const auto& message : golden["messages"]) {
      messages.push_back({message["role"], message["content"], ""});
    }
    const auto parsed = ParseTemplate({.text = source, .bos_token = "<s>", .eos_token = "</s>"});
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << source;
    const auto prompt =
        (*parsed)->Render(messages, {.add_generation_prompt = golden["add_generation_prompt"],
                                     .extra_arguments_json = golden["extra"].dump()});
    if (golden.contains("error")) {
      ++num_errors;
      EXPECT_THAT(Message(prompt.status()), testing::HasSubstr(std::string(golden["error"])));
    } else {
      ASSERT_TRUE(prompt.ok()) << prompt.status() << "\n" << source;
      EXPECT_EQ(*prompt, std::string(golden["expected"])) << source;
    }
  }
  EXPECT_GE(cases.size(), 600u);
  EXPECT_GE(num_errors, 1u);
}

}  // namespace
}  // namespace lockstep::router
