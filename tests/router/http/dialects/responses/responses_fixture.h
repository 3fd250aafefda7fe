#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/http/dialects/responses/responses_dialect.h"
#include "router/http/dialects/responses/responses_request.h"
#include "tests/router/http/dialects/openai/openai_request_fixture.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {

inline ResponsesRequest ReadResponsesBody(const std::string& body) {
  absl::StatusOr<ResponsesRequest> request = ParseResponsesRequest(body);
  EXPECT_TRUE(request.ok()) << body << ": " << request.status();
  return request.ok() ? *std::move(request) : ResponsesRequest();
}

// The chat that a body with this member becomes, beside `input`.
inline v1::ChatPrompt ChatOfResponse(const std::string& members) {
  const ResponsesRequest request = ReadResponsesBody("{" + members + "}");
  return request.prompts.empty() ? v1::ChatPrompt() : request.prompts[0].chat();
}

inline void ExpectChat(const v1::ChatPrompt& got, const std::string& expected) {
  v1::ChatPrompt chat;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &chat)) << expected;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(got, chat))
      << got.DebugString();
}

// A writer for the body {"input": "Hi", `fields`}, and the messages it gets.
class ResponseWriterTest : public ::testing::Test {
 protected:
  void Ask(const std::string& fields) {
    request_ = ReadResponsesBody(R"({"input": "Hi", "request_id": "r1")" +
                                 (fields.empty() ? "" : ", " + fields) + "}");
    writer_ = ResponsesDialect().MakeWriter({.model = "tiny",
                                             .system_fingerprint = "fp_1",
                                             .created_unix_seconds = 7,
                                             .tokenizer = &tokenizer_},
                                            request_);
  }
  // What these messages, which came together, add to the answer.
  std::string Add(const std::vector<std::string>& messages) {
    std::vector<v1::GenerateResponse> parsed;
    for (const std::string& text : messages) {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &parsed.emplace_back()))
          << text;
    }
    std::string out;
    writer_->Add(0, parsed, out);
    return out;
  }
  std::string Finish() {
    std::string out;
    writer_->Finish(out);
    return out;
  }
  // The whole answer to these messages.
  std::string Answer(const std::string& fields, const std::vector<std::string>& messages) {
    Ask(fields);
    const std::string begin = Add(messages);
    return begin + Finish();
  }

  // The response's JSON. `error` and `incomplete` are JSON.
  std::string Response(const std::string& status, const std::string& output,
                       const std::string& usage, const std::string& seed = "null",
                       const std::string& error = "null",
                       const std::string& incomplete = "null") const {
    return R"({"id":"resp_r1","object":"response","created_at":7,"status":")" + status +
           R"(","completed_at":null,"error":)" + error + R"(,"incomplete_details":)" + incomplete +
           R"(,"model":"tiny","output":[)" + output + "]," + request_.echo + R"(,"usage":)" +
           usage + R"(,"system_fingerprint":"fp_1","seed":)" + seed + "}";
  }

  const lockstep::testing::ByteTokenizer tokenizer_;
  ResponsesRequest request_;
  std::unique_ptr<AnswerWriter> writer_;
};

inline constexpr char kResponsePrompt[] =
    "prompt_info { request_id: 'r1' prompt_tokens: 3 cached_tokens: 2 }";
inline constexpr char kFinishUsage[] =
    "usage { prompt_tokens: 3 completion_tokens: 5 cached_tokens: 2 seed: 9 reasoning_tokens: 1 }";
inline constexpr char kUsageJson[] =
    R"({"input_tokens":3,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":0},)"
    R"("output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":8})";

inline std::string FinishOf(const std::string& reason) {
  return "finish { reason: FINISH_REASON_" + reason + " " + kFinishUsage + " }";
}

}  // namespace lockstep::router
