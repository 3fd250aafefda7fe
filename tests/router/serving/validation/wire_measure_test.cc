#include "router/serving/validation/wire_measure.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "lockstep/v1/generation.pb.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;

constexpr uint32_t kContextTokens = 4096;

template <typename Request>
absl::StatusOr<size_t> Measure(const std::string& bytes, const RequestLimits& limits = {}) {
  return MeasureMessage(bytes, *Request::descriptor(), RequestBounds(limits, kContextTokens));
}

template <typename Request>
void ExpectError(const std::string& bytes, absl::StatusCode code, const std::string& message,
                 const RequestLimits& limits = {}) {
  const absl::Status status = Measure<Request>(bytes, limits).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(lockstep::Message(status), HasSubstr(message));
}

std::string Repeated(const std::string& bytes, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += bytes;
  return all;
}

// A field of this number with these contents.
std::string Delimited(int number, const std::string& contents) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (size_t size = contents.size();; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0));
    if (size <= 0x7f) break;
  }
  return bytes + contents;
}

void FindRepeated(const Descriptor& type, std::set<const FieldDescriptor*>& found) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->is_repeated()) found.insert(field);
    if (field->message_type() != nullptr) FindRepeated(*field->message_type(), found);
  }
}

TEST(MeasureMessageTest, EveryRepeatedFieldOfARequestHasABound) {
  std::set<const FieldDescriptor*> fields;
  for (const Descriptor* const type :
       {v1::GenerateRequest::descriptor(), v1::TokenizeRequest::descriptor(),
        v1::DetokenizeRequest::descriptor(), v1::AbortRequest::descriptor(),
        v1::GetModelRequest::descriptor(), v1::ListModelsRequest::descriptor()}) {
    FindRepeated(*type, fields);
  }
  std::set<const FieldDescriptor*> bounded;
  for (const FieldBound& bound : RequestBounds(RequestLimits(), kContextTokens)) {
    bounded.insert(bound.field);
  }
  EXPECT_EQ(bounded, fields);
}

TEST(MeasureMessageTest, ElementsBeyondABoundAreRefusedAndNamed) {
  const std::string message = Delimited(1, "");
  EXPECT_TRUE(Measure<v1::GenerateRequest>(Delimited(5, Repeated(message, 1024))).ok());
  ExpectError<v1::GenerateRequest>(
      Delimited(5, Repeated(message, 2'600'000)), absl::StatusCode::kInvalidArgument,
      "chat.messages: expected at most 1024 messages, got 1025 or more");
  ExpectError<v1::TokenizeRequest>(Delimited(3, Repeated(message, 1025)),
                                   absl::StatusCode::kInvalidArgument, "chat.messages");
  // In two parts, which the parser would put together.
  ExpectError<v1::GenerateRequest>(
      Delimited(5, Repeated(message, 600)) + Delimited(5, Repeated(message, 600)),
      absl::StatusCode::kInvalidArgument, "chat.messages");
  ExpectError<v1::GenerateRequest>(Delimited(7, Repeated(Delimited(3, ""), 17)),
                                   absl::StatusCode::kInvalidArgument, "stop.stop");
  ExpectError<v1::GenerateRequest>(Delimited(6, Repeated(Delimited(10, ""), 1025)),
                                   absl::StatusCode::kInvalidArgument, "sampling.logit_bias");
  EXPECT_TRUE(Measure<v1::AbortRequest>(Repeated(message, 1024)).ok());
  ExpectError<v1::AbortRequest>(Repeated(message, 1025), absl::StatusCode::kInvalidArgument,
                                "request_ids: expected at most 1024 ids");
}

TEST(MeasureMessageTest, NumbersAreCountedPackedOrNot) {
  const std::string one("\x10\x01", 2);
  RequestLimits limits;
  limits.max_prompt_bytes = 1000;  // the context has more tokens
  EXPECT_TRUE(Measure<v1::DetokenizeRequest>(Repeated(one, 4096), limits).ok());
  EXPECT_TRUE(
      Measure<v1::DetokenizeRequest>(Delimited(2, Repeated("\x81\x01", 4096)), limits).ok());
  for (const std::string& bytes : {Repeated(one, 4097), Delimited(2, Repeated("\x81\x01", 4097)),
                                   Repeated(one, 97) + Delimited(2, std::string(4000, '\x01'))}) {
    ExpectError<v1::DetokenizeRequest>(bytes, absl::StatusCode::kInvalidArgument,
                                       "token_ids: expected at most 4096 ids, got 4097 or more",
                                       limits);
  }
  limits.max_prompt_bytes = 2048;
  EXPECT_TRUE(Measure<v1::DetokenizeRequest>(Repeated(one, 8192), limits).ok());
  EXPECT_FALSE(Measure<v1::DetokenizeRequest>(Repeated(one, 8193), limits).ok());
}

TEST(MeasureMessageTest, UnknownFieldsAreNamed) {
  const std::string field_99("\x98\x06\x01", 3);  // is 1
  ExpectError<v1::GenerateRequest>(field_99, absl::StatusCode::kUnimplemented,
                                   "request: field number 99 of lockstep.v1.GenerateRequest");
  ExpectError<v1::GenerateRequest>(Delimited(5, Delimited(1, "") + Delimited(1, field_99)),
                                   absl::StatusCode::kUnimplemented,
                                   "chat.messages[1]: field number 99 of lockstep.v1.ChatMessage");
  // A string where a message belongs is a message; a number is not.
  ExpectError<v1::GenerateRequest>(std::string("\x28\x01", 2), absl::StatusCode::kUnimplemented,
                                   "request: field number 5");
}

TEST(MeasureMessageTest, BytesThatAreNoMessageAreRefused) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff"), std::string("\x1a\x05x"), std::string("\x0b"),
        std::string("\x0c"), std::string("\x07"), std::string(1, '\0'), std::string("\x1a")}) {
    ExpectError<v1::GenerateRequest>(bytes, absl::StatusCode::kInvalidArgument,
                                     "the message cannot be parsed");
  }
}

v1::GenerateRequest DrawRequest(std::mt19937& random) {
  const auto below = [&random](uint32_t end) { return static_cast<int>(random() % end); };
  const auto text = [&] { return std::string(below(40), 'x'); };
  v1::GenerateRequest request;
  request.set_request_id(text());
  switch (below(3)) {
    case 0:
      request.set_text(text());
      break;
    case 1:
      for (int i = below(300); i > 0; --i) request.mutable_token_ids()->add_ids(random());
      break;
    default:
      for (int i = below(30); i > 0; --i) {
        v1::ChatMessage* const message = request.mutable_chat()->add_messages();
        if (below(2) == 0) message->set_role(text());
        if (below(2) == 0) message->set_content(text());
        if (below(2) == 0) message->set_name(text());
      }
      request.mutable_chat()->set_template_arguments_json(text());
  }
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (below(2) == 0) sampling.set_temperature(1);
  for (int i = below(50); i > 0; --i) (*sampling.mutable_logit_bias())[random()] = 1;
  for (int i = below(50); i > 0; --i) sampling.add_allowed_token_ids(random());
  for (int i = below(16); i > 0; --i) request.mutable_stop()->add_stop(text());
  for (int i = below(64); i > 0; --i) request.mutable_stop()->add_stop_token_ids(random());
  request.mutable_output()->set_logprobs(below(20));
  return request;
}

TEST(MeasureMessageTest, ARequestTakesAboutAsMuchAsWasMeasured) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = DrawRequest(random).SerializeAsString();
    v1::GenerateRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    const absl::StatusOr<size_t> measured = Measure<v1::GenerateRequest>(bytes);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_GE(*measured, parsed.SpaceUsedLong());
    EXPECT_LE(*measured, 8 * parsed.SpaceUsedLong());
  }
}

TEST(MeasureMessageTest, RefusesNothingElseThatIsParsed) {
  const google::protobuf::LogSilencer no_words_about_bad_utf8;
  std::mt19937 random(2);
  size_t num_parsed = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = DrawRequest(random).SerializeAsString();
    if (bytes.empty()) continue;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    v1::GenerateRequest parsed;
    const bool is_message = parsed.ParseFromString(bytes);
    const absl::Status status = Measure<v1::GenerateRequest>(bytes).status();
    num_parsed += is_message;
    // What is refused beside that has an unknown field, perhaps in an entry of a map, whose unknown
    // fields the parser drops.
    if (is_message && !status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    }
  }
  EXPECT_GT(num_parsed, 100u);
}

}  // namespace
}  // namespace lockstep::router
