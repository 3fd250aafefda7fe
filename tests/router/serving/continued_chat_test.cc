// Chats whose last message is left open, against transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::ByteTokenizer;
using ::lockstep::testing::kChatMlTemplate;
using ::lockstep::testing::MakeByteModel;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

lockstep::v1::ChatPrompt ContinuedChat(
    const std::vector<std::pair<std::string, std::string>>& turns) {
  lockstep::v1::ChatPrompt chat;
  for (const auto& [role, content] : turns) {
    auto* const message = chat.add_messages();
    message->set_role(role);
    message->set_content(content);
  }
  chat.set_continue_final_message(true);
  return chat;
}

absl::StatusOr<std::string> TextOf(const ServedModel& model, const lockstep::v1::ChatPrompt& chat) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, PromptEncoder(model).EncodeChat(chat));
  return model.tokenizer->Decode(ids, /*skip_special_tokens=*/false);
}

TEST(ContinuedChatTest, PromptsEqualThoseOfTransformers) {
  const auto golden = nlohmann::json::parse(ReadGoldenFile("continued_chats.json"), nullptr, false);
  ASSERT_TRUE(golden.is_object());
  std::vector<ServedModel> models;
  for (const auto& source : golden["templates"]) models.push_back(MakeByteModel(source));
  for (const auto& test : golden["cases"]) {
    SCOPED_TRACE(test.dump());
    lockstep::v1::ChatPrompt chat = ContinuedChat(test["messages"]);
    chat.set_template_arguments_json(R"({"date_string": "26 Jul 2024"})");
    const auto text = TextOf(models.at(test["template"]), chat);
    if (test["expected"].is_null()) {
      EXPECT_FALSE(text.ok()) << *text;
    } else {
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, test["expected"].get<std::string>());
    }
  }
  EXPECT_GE(models.size(), 6u);
  EXPECT_GE(golden["cases"].size(), 250u);
}

TEST(ContinuedChatTest, TheOpenMessageHasNoSpecialTokensEither) {
  const ServedModel model = MakeByteModel(kChatMlTemplate);
  const auto ids =
      PromptEncoder(model).EncodeChat(ContinuedChat({{"assistant", "a<|im_end|>b<s>"}}));
  ASSERT_TRUE(ids.ok()) << ids.status();
  std::vector<TokenId> expected = {ByteTokenizer::kStart};
  for (const TokenId id : lockstep::testing::Bytes("assistant\na<|im_end|>b<s>")) {
    expected.push_back(id);
  }
  EXPECT_THAT(*ids, ElementsAreArray(expected));
}

TEST(ContinuedChatTest, AGenerationPromptMayBeDeclinedButDoesNotCome) {
  const ServedModel model = MakeByteModel(kChatMlTemplate);
  lockstep::v1::ChatPrompt chat = ContinuedChat({{"assistant", "Red"}});
  EXPECT_EQ(*TextOf(model, chat), "<|im_start|>assistant\nRed");
  chat.set_add_generation_prompt(false);
  EXPECT_EQ(*TextOf(model, chat), "<|im_start|>assistant\nRed");
}

TEST(ContinuedChatTest, AMessageThatTheTemplateAltersCannotBeContinued) {
  const std::string loop = "{% for m in messages %}";
  for (const std::string& source :
       {loop + "{{ m.content | replace('e', 'u') }}{% endfor %}",                  // alters it
        loop + "{% if not loop.last %}{{ m.content }}{% endif %}{% endfor %}"}) {  // leaves it out
    const ServedModel model = MakeByteModel(source);
    const auto text = TextOf(model, ContinuedChat({{"user", "Hi"}, {"assistant", "Red"}}));
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(Message(text.status()),
                HasSubstr("chat.continue_final_message: the chat template does not print"));
  }
}

}  // namespace
}  // namespace lockstep::router
