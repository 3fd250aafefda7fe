#include "router/serving/output/output_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "common/status.h"
#include "router/serving/output/tool_call_id.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/serving/output/tool_output_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::Bytes;
using ::testing::SizeIs;

TEST(ToolCallIdTest, DependsOnRequestSampleAndNumberAlone) {
  Request request;
  request.id = "r";
  request.prompt_tokens = {1, 2};
  request.sampling.seed = 7;
  const OutputFormat& hermes = **FindOutputFormat("hermes");
  const std::string id = ToolCallId(hermes, request, 0, 0);
  EXPECT_EQ(ToolCallId(hermes, request, 0, 0), id);
  std::set<std::string> ids;
  for (uint32_t sample = 0; sample < 20; ++sample) {
    for (uint32_t call = 0; call < 20; ++call) {
      ids.insert(ToolCallId(hermes, request, sample, call));
    }
  }
  EXPECT_THAT(ids, SizeIs(400));
  // The next turn of a client that gives all its requests one id.
  request.prompt_tokens.push_back(3);
  EXPECT_NE(ToolCallId(hermes, request, 0, 0), id);
}

class ReadingTest : public ::testing::Test {
 protected:
  ReadingTest() : model_(lockstep::testing::MakeByteModel()) {
    model_.output_format = *FindOutputFormat("hermes");
    auto* const message = request_.mutable_chat()->add_messages();
    message->set_role("user");
  }
  std::shared_ptr<const OutputReading> Reading(const std::string& prompt = "x") const {
    const auto reading = ReadingOf(request_, model_, Bytes(prompt));
    EXPECT_TRUE(reading.ok()) << reading.status();
    return reading.value_or(nullptr);
  }

  ServedModel model_;
  lockstep::v1::GenerateRequest request_;
};

TEST_F(ReadingTest, OnlyWhatIsAskedForIsParsed) {
  ASSERT_NE(Reading(), nullptr);
  EXPECT_TRUE(Reading()->options.split_reasoning);
  EXPECT_FALSE(Reading()->options.parse_calls);
  request_.mutable_output()->set_split_reasoning(false);
  EXPECT_EQ(Reading(), nullptr);
  request_.mutable_chat()->set_tools_json(kOutputTools);
  ASSERT_NE(Reading(), nullptr);
  EXPECT_TRUE(Reading()->options.parse_calls);
  EXPECT_FALSE(Reading()->options.split_reasoning);
  EXPECT_TRUE(Reading()->tools.Has("g"));
  request_.mutable_chat()->mutable_tool_choice()->set_mode(lockstep::v1::ToolChoice::NONE);
  EXPECT_EQ(Reading(), nullptr);
  request_.set_text("no chat");
  request_.mutable_output()->set_split_reasoning(true);
  EXPECT_EQ(Reading(), nullptr);
}

// The mask holds from the first token on, also if the template has begun reasoning.
TEST_F(ReadingTest, AConstrainedOutputIsContent) {
  ASSERT_NE(Reading("<think>\n"), nullptr);
  request_.mutable_sampling()->set_json_object(true);
  EXPECT_EQ(Reading("<think>\n"), nullptr);
}

TEST_F(ReadingTest, AModelWithoutReasoningIsLeftAlone) {
  model_.output_format = *FindOutputFormat("llama3");
  EXPECT_EQ(Reading(), nullptr);
  model_.output_format = nullptr;
  request_.mutable_chat()->set_tools_json(kOutputTools);
  EXPECT_EQ(Reading(), nullptr);
}

TEST_F(ReadingTest, AForcedCallHasTheGrammarOfItsParser) {
  using GrammarReasoning = CallGrammarOptions::Reasoning;
  auto& chat = *request_.mutable_chat();
  chat.set_tools_json(kOutputTools);
  EXPECT_FALSE(Reading()->forced.has_value());
  auto& choice = *chat.mutable_tool_choice();
  choice.set_mode(lockstep::v1::ToolChoice::REQUIRED);
  ASSERT_TRUE(Reading()->forced.has_value());
  EXPECT_FALSE(Reading()->forced->grammar.single || Reading()->single_call);
  EXPECT_FALSE(Reading()->forced->named);
  // Reasoning is what the parser takes for it.
  EXPECT_EQ(Reading("<|im_start|>assistant\n")->forced->grammar.reasoning,
            GrammarReasoning::kOptional);
  EXPECT_EQ(Reading("<think>\n")->forced->grammar.reasoning, GrammarReasoning::kOpen);
  EXPECT_EQ(Reading("<think>\n\n</think>\n\n")->forced->grammar.reasoning, GrammarReasoning::kNone);
  choice.set_single(true);
  EXPECT_TRUE(Reading()->forced->grammar.single && Reading()->single_call);
  choice.set_single(false);
  choice.set_function("g");
  EXPECT_TRUE(Reading()->forced->named && Reading()->forced->grammar.single);
  EXPECT_TRUE(Reading()->single_call);
  model_.output_format = *FindOutputFormat("llama3");
  EXPECT_EQ(Reading()->forced->grammar.reasoning, GrammarReasoning::kNone);
  model_.output_format = *FindOutputFormat("gemma4");
  const absl::Status status = ReadingOf(request_, model_, Bytes("x")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(status), "chat.tool_choice: forced calls of format gemma4 are not implemented");
}

TEST_F(ReadingTest, ThePromptsTailSaysWhetherReasoningHasBegun) {
  EXPECT_FALSE(Reading("<|im_start|>assistant\n")->options.begins_in_reasoning);
  EXPECT_TRUE(Reading("<|im_start|>assistant\n<think>\n")->options.begins_in_reasoning);
  EXPECT_FALSE(Reading("<think>\n\n</think>\n\n")->options.begins_in_reasoning);
}

}  // namespace
}  // namespace lockstep::router
