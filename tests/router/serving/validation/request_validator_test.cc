#include "router/serving/validation/request_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/serving/small_requests.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::AddMessage;
using ::lockstep::testing::SmallLimits;
using ::lockstep::testing::SmallModel;
using ::lockstep::testing::SmallRequest;
using ::testing::HasSubstr;

using Wire = lockstep::v1::GenerateRequest;
using absl::StatusCode;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct CheckCase {
  std::string name;
  std::function<void(Wire&)> change;
  StatusCode code = StatusCode::kOk;
  std::string message;  // in the error
};
void PrintTo(const CheckCase& test_case, std::ostream* out) { *out << test_case.name; }

class CheckRequestTest : public ::testing::TestWithParam<CheckCase> {};

TEST_P(CheckRequestTest, AnswersByField) {
  Wire request = SmallRequest();
  GetParam().change(request);
  const absl::Status status = CheckRequest(request, SmallLimits(), SmallModel());
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(Message(status), HasSubstr(GetParam().message));
}

std::string CaseName(const ::testing::TestParamInfo<CheckCase>& info) { return info.param.name; }
CheckCase Good(std::string name, std::function<void(Wire&)> change) {
  return {std::move(name), std::move(change), StatusCode::kOk, ""};
}
CheckCase Bad(std::string name, std::function<void(Wire&)> change, std::string message) {
  return {std::move(name), std::move(change), StatusCode::kInvalidArgument, std::move(message)};
}
CheckCase Unserved(std::string name, std::function<void(Wire&)> change, std::string message) {
  return {std::move(name), std::move(change), StatusCode::kUnimplemented, std::move(message)};
}

INSTANTIATE_TEST_SUITE_P(
    Identity, CheckRequestTest,
    ::testing::Values(
        Good("Plain", [](Wire&) {}),
        Good("IdAtTheBound", [](Wire& r) { r.set_request_id(std::string(256, 'a')); }),
        Bad(
            "IdTooLong", [](Wire& r) { r.set_request_id(std::string(257, 'a')); },
            "request_id: expected at most 256 bytes, got 257"),
        Good("IdCharacters", [](Wire& r) { r.set_request_id("aZ09._:-"); }),
        Bad(
            "IdWithNewline", [](Wire& r) { r.set_request_id("a\nb"); },
            "request_id: expected characters of [A-Za-z0-9._:-], got \"a\\nb\""),
        Bad(
            "IdWithNul", [](Wire& r) { r.set_request_id(std::string("a\0b", 3)); }, "request_id"),
        Good("ModelByAlias", [](Wire& r) { r.set_model("tiny-alias"); }),
        Good("ModelByName", [](Wire& r) { r.set_model("tiny"); }),
        CheckCase{"OtherModel", [](Wire& r) { r.set_model("huge"); }, StatusCode::kNotFound,
                  "model: expected \"tiny\" or nothing, got \"huge\""},
        Bad(
            "TenantCharacters", [](Wire& r) { r.set_tenant("a b"); }, "tenant"),
        Bad(
            "TenantTooLong", [](Wire& r) { r.set_tenant(std::string(257, 't')); }, "tenant"),
        Bad(
            "SessionTooLong", [](Wire& r) { r.set_session_id(std::string(257, 's')); },
            "session_id"),
        Good("SaltAtTheBound", [](Wire& r) { r.set_cache_salt(std::string(1024, '#')); }),
        Bad(
            "SaltTooLong", [](Wire& r) { r.set_cache_salt(std::string(1025, '#')); },
            "cache_salt: expected at most 1024 bytes, got 1025"),
        Good("SpeculationOff", [](Wire& r) { r.set_speculation(v1::SPECULATION_OFF); }),
        Bad(
            "SpeculationUnknown",
            [](Wire& r) { r.set_speculation(static_cast<v1::Speculation>(3)); },
            "speculation: expected AUTO (1) or OFF (2), got 3"),
        Good("PriorityLow", [](Wire& r) { r.set_priority(-1000); }),
        Bad(
            "PriorityTooLow", [](Wire& r) { r.set_priority(-1001); },
            "priority: expected a number from -1000"),
        Good("PriorityHigh", [](Wire& r) { r.set_priority(1000); }),
        Bad(
            "PriorityTooHigh", [](Wire& r) { r.set_priority(1001); }, "priority"),
        Unserved(
            "Adapter", [](Wire& r) { r.set_adapter("lora"); }, "adapter: "),
        Good("TruncateAtOne", [](Wire& r) { r.set_truncate_prompt_tokens(1); }),
        Good("TruncateToAllThatFits", [](Wire& r) { r.set_truncate_prompt_tokens(kAllThatFits); }),
        Bad(
            "TruncateToNothing", [](Wire& r) { r.set_truncate_prompt_tokens(0); },
            "truncate_prompt_tokens: expected a number from 1 to 31, got 0"),
        Bad(
            "TruncateBeyondContext", [](Wire& r) { r.set_truncate_prompt_tokens(32); },
            "truncate_prompt_tokens")),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Prompt, CheckRequestTest,
    ::testing::Values(
        Bad(
            "None", [](Wire& r) { r.clear_prompt(); },
            "prompt: expected one of text, token_ids, chat"),
        Good("TextAtTheBound", [](Wire& r) { r.set_text(std::string(40, 'x')); }),
        Bad(
            "TextTooLong", [](Wire& r) { r.set_text(std::string(41, 'x')); },
            "text: expected at most 40 bytes, got 41"),
        Good("LastTokenId", [](Wire& r) { r.mutable_token_ids()->add_ids(99); }),
        Bad(
            "TokenIdBeyondVocabulary",
            [](Wire& r) {
              r.mutable_token_ids()->add_ids(1);
              r.mutable_token_ids()->add_ids(100);
            },
            "token_ids.ids[1]: expected a token id below 100, got 100"),
        Good("AsManyIdsAsFit",
             [](Wire& r) { r.mutable_token_ids()->mutable_ids()->Resize(31, 1); }),
        Bad(
            "TooManyIds", [](Wire& r) { r.mutable_token_ids()->mutable_ids()->Resize(32, 1); },
            "This model's maximum context length is 32 tokens. However, you requested 33 tokens "
            "(32 in the prompt, 1 in the completion)."),
        Good("TooManyIdsToBeCut",
             [](Wire& r) {
               r.set_truncate_prompt_tokens(5);
               r.mutable_token_ids()->mutable_ids()->Resize(40, 1);
             }),
        Bad(
            "FarTooManyIdsToBeCut",
            [](Wire& r) {
              r.set_truncate_prompt_tokens(5);
              r.mutable_token_ids()->mutable_ids()->Resize(41, 1);
            },
            "token_ids.ids"),
        Good("Chat", [](Wire& r) { AddMessage(r, "user", "hi"); }),
        Bad(
            "ChatWithoutMessages", [](Wire& r) { r.mutable_chat(); },
            "chat.messages: expected at least 1 message"),
        Good("MessagesAtTheBound",
             [](Wire& r) {
               for (int i = 0; i < 3; ++i) AddMessage(r, "user", "a");
             }),
        Bad(
            "TooManyMessages",
            [](Wire& r) {
              for (int i = 0; i < 4; ++i) AddMessage(r, "user", "a");
            },
            "chat.messages: expected at most 3 messages, got 4"),
        Bad(
            "NoRole", [](Wire& r) { AddMessage(r, "", "a"); }, "chat.messages[0].role"),
        Bad(
            "RoleWithSpecialToken", [](Wire& r) { AddMessage(r, "user<|im_end|>", "a"); },
            "chat.messages[0].role: expected characters of"),
        Bad(
            "RoleTooLong", [](Wire& r) { AddMessage(r, std::string(65, 'r'), "a"); },
            "chat.messages[0].role"),
        Bad(
            "NameWithSpecialToken",
            [](Wire& r) {
              AddMessage(r, "user", "a");
              r.mutable_chat()->mutable_messages(0)->set_name("<s>");
            },
            "chat.messages[0].name"),
        Good("ChatBytesAtTheBound", [](Wire& r) { AddMessage(r, "user", std::string(36, 'x')); }),
        Bad(
            "ChatTooLong", [](Wire& r) { AddMessage(r, "user", std::string(37, 'x')); },
            "chat.messages: expected at most 40 bytes, got 41"),
        Bad(
            "ArgumentsTooLong",
            [](Wire& r) {
              AddMessage(r, "user", "a");
              r.mutable_chat()->set_template_arguments_json(std::string(11, ' '));
            },
            "chat.template_arguments_json: expected at most 10 bytes"),
        Good("ContinuedMessage",
             [](Wire& r) {
               AddMessage(r, "user", "a");
               r.mutable_chat()->set_continue_final_message(true);
             }),
        Good("ContinuedMessageWithoutGenerationPrompt",
             [](Wire& r) {
               AddMessage(r, "user", "a");
               r.mutable_chat()->set_continue_final_message(true);
               r.mutable_chat()->set_add_generation_prompt(false);
             }),
        Bad(
            "ContinuedMessageWithGenerationPrompt",
            [](Wire& r) {
              AddMessage(r, "user", "a");
              r.mutable_chat()->set_continue_final_message(true);
              r.mutable_chat()->set_add_generation_prompt(true);
            },
            "chat.add_generation_prompt: expected false with continue_final_message, got true")),
    CaseName);

// Both ends of a closed range are fine, one step beyond either is not.
std::vector<CheckCase> FloatRangeCases() {
  using Set = std::function<void(Wire&, float)>;
  struct Field {
    std::string name;
    Set set;
    std::vector<float> good;
    std::vector<float> bad;
  };
  const std::vector<Field> fields = {
      {"temperature",
       [](Wire& r, float v) { r.mutable_sampling()->set_temperature(v); },
       {0, 0.001f, 1, 100},
       {-1e-6f, 1e-6f, 9e-4f, 100.01f, kNan, kInfinity, -kInfinity}},
      {"top_p",
       [](Wire& r, float v) { r.mutable_sampling()->set_top_p(v); },
       {1e-9f, 1},
       {0, -0.1f, 1.0001f, kNan, kInfinity}},
      {"min_p",
       [](Wire& r, float v) { r.mutable_sampling()->set_min_p(v); },
       {0, 1},
       {-1e-6f, 1.0001f, kNan, kInfinity}},
      {"presence_penalty",
       [](Wire& r, float v) { r.mutable_sampling()->set_presence_penalty(v); },
       {-2, 0, 2},
       {-2.001f, 2.001f, kNan, kInfinity}},
      {"frequency_penalty",
       [](Wire& r, float v) { r.mutable_sampling()->set_frequency_penalty(v); },
       {-2, 0, 2},
       {-2.001f, 2.001f, kNan, kInfinity}},
      {"repetition_penalty",
       [](Wire& r, float v) { r.mutable_sampling()->set_repetition_penalty(v); },
       {1e-6f, 1, 10},
       {0, -1, 10.01f, kNan, kInfinity}},
      {"logit_bias[5]",
       [](Wire& r, float v) { (*r.mutable_sampling()->mutable_logit_bias())[5] = v; },
       {-100, 0, 100},
       {-100.01f, 100.01f, kNan, kInfinity}},
  };
  std::vector<CheckCase> cases;
  for (size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    const auto add = [&](float value, bool good) {
      const auto change = [set = field.set, value](Wire& r) { set(r, value); };
      const std::string name = fmt::format("Field{}Case{}", f, cases.size());
      cases.push_back(good ? Good(name, change)
                           : Bad(name, change, "sampling." + field.name + ": expected"));
    };
    for (const float value : field.good) add(value, true);
    for (const float value : field.bad) add(value, false);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(FloatRanges, CheckRequestTest, ::testing::ValuesIn(FloatRangeCases()),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(
    Sampling, CheckRequestTest,
    ::testing::Values(
        Good("NAtTheBounds", [](Wire& r) { r.mutable_sampling()->set_n(4); }),
        Bad(
            "NZero", [](Wire& r) { r.mutable_sampling()->set_n(0); },
            "sampling.n: expected a number from 1 to 4, got 0"),
        Bad(
            "NTooLarge", [](Wire& r) { r.mutable_sampling()->set_n(5); }, "sampling.n"),
        Bad(
            "BiasBeyondVocabulary",
            [](Wire& r) { (*r.mutable_sampling()->mutable_logit_bias())[100] = 1; },
            "sampling.logit_bias[100]: expected a token id below 100"),
        Bad(
            "TooManyBiases",
            [](Wire& r) {
              for (int id = 0; id < 3; ++id) (*r.mutable_sampling()->mutable_logit_bias())[id] = 1;
            },
            "sampling.logit_bias: expected at most 2 entries, got 3"),
        Good("AllowedAtTheBound",
             [](Wire& r) { r.mutable_sampling()->mutable_allowed_token_ids()->Resize(3, 99); }),
        Bad(
            "TooManyAllowed",
            [](Wire& r) { r.mutable_sampling()->mutable_allowed_token_ids()->Resize(4, 1); },
            "sampling.allowed_token_ids: expected at most 3 ids, got 4"),
        Bad(
            "AllowedBeyondVocabulary",
            [](Wire& r) { r.mutable_sampling()->add_allowed_token_ids(100); },
            "sampling.allowed_token_ids[0]: expected a token id below 100, got 100"),
        Unserved(
            "JsonSchema", [](Wire& r) { r.mutable_sampling()->set_json_schema("{}"); },
            "sampling.json_schema"),
        Unserved(
            "Regex", [](Wire& r) { r.mutable_sampling()->set_regex("a*"); }, "sampling.regex"),
        Unserved(
            "Grammar", [](Wire& r) { r.mutable_sampling()->set_grammar("root ::="); },
            "sampling.grammar"),
        Unserved(
            "JsonObject", [](Wire& r) { r.mutable_sampling()->set_json_object(true); },
            "sampling.json_object"),
        Good("NoJsonObject", [](Wire& r) { r.mutable_sampling()->set_json_object(false); }),
        Unserved(
            "Choice", [](Wire& r) { r.mutable_sampling()->mutable_choice()->add_texts("a"); },
            "sampling.choice"),
        Unserved(
            "FieldOfTheFuture",
            [](Wire& r) {
              auto* const sampling = r.mutable_sampling();
              sampling->GetReflection()->MutableUnknownFields(sampling)->AddVarint(99, 1);
            },
            "sampling: field number 99 of lockstep.v1.SamplingParams is not known")),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    StopAndOutput, CheckRequestTest,
    ::testing::Values(
        Good("MaxTokensOne", [](Wire& r) { r.mutable_stop()->set_max_tokens(1); }),
        Bad(
            "MaxTokensZero", [](Wire& r) { r.mutable_stop()->set_max_tokens(0); },
            "stop.max_tokens: expected a number from 1 to 4294967295, got 0"),
        Good("MaxTokensHuge", [](Wire& r) { r.mutable_stop()->set_max_tokens(0xffffffff); }),
        Bad(
            "MinTokensHuge", [](Wire& r) { r.mutable_stop()->set_min_tokens(32); },
            "stop.min_tokens"),
        Good("StopAtTheBounds",
             [](Wire& r) {
               r.mutable_stop()->add_stop("abcde");
               r.mutable_stop()->add_stop("x");
             }),
        Bad(
            "TooManyStops",
            [](Wire& r) {
              for (int i = 0; i < 3; ++i) r.mutable_stop()->add_stop("x");
            },
            "stop.stop: expected at most 2 strings, got 3"),
        Bad(
            "StopTooLong", [](Wire& r) { r.mutable_stop()->add_stop("abcdef"); },
            "stop.stop[0]: expected at most 5 bytes, got 6"),
        Good("BadWordsAtTheBounds",
             [](Wire& r) {
               for (int i = 0; i < 2; ++i) r.mutable_sampling()->add_bad_words("abcde");
             }),
        Bad(
            "BadWordsTooMany",
            [](Wire& r) {
              for (int i = 0; i < 3; ++i) r.mutable_sampling()->add_bad_words("x");
            },
            "sampling.bad_words: expected at most 2 strings, got 3"),
        Bad(
            "BadWordTooLong", [](Wire& r) { r.mutable_sampling()->add_bad_words("abcdef"); },
            "sampling.bad_words[0]: expected at most 5 bytes, got 6"),
        Bad(
            "BadWordEmpty", [](Wire& r) { r.mutable_sampling()->add_bad_words(""); },
            "sampling.bad_words[0]: expected at least 1 byte"),
        Bad(
            "StopEmpty", [](Wire& r) { r.mutable_stop()->add_stop(""); },
            "stop.stop[0]: expected at least 1 byte"),
        Good("StopIdsAtTheBound",
             [](Wire& r) { r.mutable_stop()->mutable_stop_token_ids()->Resize(3, 99); }),
        Bad(
            "TooManyStopIds",
            [](Wire& r) { r.mutable_stop()->mutable_stop_token_ids()->Resize(4, 1); },
            "stop.stop_token_ids: expected at most 3 ids, got 4"),
        Bad(
            "StopIdBeyondVocabulary", [](Wire& r) { r.mutable_stop()->add_stop_token_ids(100); },
            "stop.stop_token_ids[0]"),
        Good("LogprobsAtTheBound",
             [](Wire& r) {
               r.mutable_output()->set_logprobs(5);
               r.mutable_output()->set_prompt_logprobs(5);
             }),
        Bad(
            "LogprobsTooMany", [](Wire& r) { r.mutable_output()->set_logprobs(6); },
            "output.logprobs: expected a number from 0 to 5, got 6"),
        Bad(
            "PromptLogprobsTooMany", [](Wire& r) { r.mutable_output()->set_prompt_logprobs(6); },
            "output.prompt_logprobs: expected a number from 0 to 5, got 6")),
    CaseName);

TEST(CheckRequestTest, ChatNeedsATemplate) {
  ModelFacts model = SmallModel();
  model.has_chat_template = false;
  Wire request;
  AddMessage(request, "user", "hi");
  EXPECT_THAT(Message(CheckRequest(request, SmallLimits(), model)),
              HasSubstr("chat: expected text or token_ids"));
}

TEST(CheckRequestTest, LongForeignTextIsCutInMessages) {
  Wire request = SmallRequest();
  request.set_model(std::string(5000, 'm'));
  EXPECT_LT(Message(CheckRequest(request, SmallLimits(), SmallModel())).size(), 200u);
}

}  // namespace
}  // namespace lockstep::router
