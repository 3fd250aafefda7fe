// Prompts equal to those of transformers, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/status.h"
#include "router/templates/renderer_frames.h"
#include "tests/router/templates/test_templates.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::SourceOf;
using ::lockstep::testing::TestRenderers;
using Json = nlohmann::ordered_json;

std::vector<ChatMessage> MessagesOf(const Json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& message : list) {
    messages.push_back({.role = message["role"],
                        .content = message["content"],
                        .name = message.value("name", "")});
  }
  return messages;
}

// Renders with one template after the other, in one process: a start costs more than a rendering.
class Renderer {
 public:
  Renderer() : program_(*OpenRendererProgram(TestRenderers().program, TestRenderers().python)) {}

  absl::StatusOr<std::string> Render(const TemplateSource& source,
                                     const std::vector<ChatMessage>& messages,
                                     const ChatTemplate::RenderOptions& options) {
    if (process_ == nullptr) {
      process_ = *RendererProcess::Start(program_, TestRenderers().limits, LoadFrame(SourceOf("")));
    }
    const auto exchange = [this](const std::string& frame) {
      RendererProcess::Reply reply = process_->Render(frame);
      if (reply.end) process_.reset();
      return reply.result;
    };
    const absl::StatusOr<std::string> loaded = exchange(LoadFrame(source));
    if (!loaded.ok()) return loaded.status();
    return exchange(*RenderFrame(messages, options));
  }

 private:
  const PythonProgram program_;
  std::unique_ptr<RendererProcess> process_;
};

TEST(ChatTemplateGoldenTest, PromptsEqualJinja) {
  const auto cases = Json::parse(ReadGoldenFile("chat_templates.json"), nullptr, false);
  ASSERT_TRUE(cases.is_array());
  Renderer renderer;
  size_t num_errors = 0;
  for (const auto& golden : cases) {
    const std::string source = golden["template"];
    const auto prompt = renderer.Render(SourceOf(source), MessagesOf(golden["messages"]),
                                        {.add_generation_prompt = golden["add_generation_prompt"],
                                         .extra_arguments_json = golden["extra"].dump(),
                                         .marked_characters = {}});
    if (golden.contains("error")) {
      ++num_errors;
      EXPECT_THAT(Message(prompt.status()), ::testing::HasSubstr(std::string(golden["error"])));
    } else {
      ASSERT_TRUE(prompt.ok()) << prompt.status() << "\n" << source;
      EXPECT_EQ(*prompt, std::string(golden["expected"])) << source;
    }
  }
  EXPECT_GE(cases.size(), 600u);
  EXPECT_GE(num_errors, 1u);
}

TEST(ChatTemplateGoldenTest, SmallTemplatesEqualTransformers) {
  const auto golden = Json::parse(ReadGoldenFile("small_templates.json"), nullptr, false);
  ASSERT_TRUE(golden.is_object());
  Renderer renderer;
  std::set<std::string> templates;
  for (const auto& test : golden["cases"]) {
    const std::string text = test[0];
    SCOPED_TRACE(text);
    templates.insert(text);
    const TemplateSource source = {
        .templates = {{"default", text}},
        .special_tokens_json = golden["tokens"][std::string(test[3])].dump()};
    const Json& arguments = golden["arguments"][std::string(test[2])];
    const auto prompt =
        renderer.Render(source, MessagesOf(golden["chats"][std::string(test[1])]),
                        {.add_generation_prompt = test[5],
                         .extra_arguments_json = arguments.empty() ? "" : arguments.dump(),
                         .marked_characters = {}});
    if (test[4].is_null()) {
      EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument) << *prompt;
    } else {
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_EQ(*prompt, std::string(test[4]));
    }
  }
  EXPECT_GE(templates.size(), 300u);
}

}  // namespace
}  // namespace lockstep::router
