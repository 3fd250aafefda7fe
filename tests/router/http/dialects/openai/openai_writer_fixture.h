#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/http/dialects/openai/openai_writer.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {

// The beginning of every object in these tests.
inline constexpr char kCompletionHead[] =
    R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"tiny",)"
    R"("system_fingerprint":"fp_1","choices":)";
inline constexpr char kChatHead[] =
    R"({"id":"cmpl-1","object":"chat.completion","created":7,"model":"tiny",)"
    R"("system_fingerprint":"fp_1","choices":)";
inline constexpr char kChunkHead[] =
    R"({"id":"cmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny",)"
    R"("system_fingerprint":"fp_1","choices":)";

inline v1::GenerateResponse ParseResponse(const std::string& text) {
  v1::GenerateResponse message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

inline std::string Event(const std::string& json) { return "data: " + json + "\n\n"; }

class AnswerWriterTest : public ::testing::Test {
 protected:
  void Parse(const AnswerFormat& format, const std::string& body) {
    auto request = &format == &ChatFormat() ? ParseChatRequest(body) : ParseCompletionRequest(body);
    ASSERT_TRUE(request.ok()) << request.status();
    request_ = *std::move(request);
    writer_ = OpenAiWriter::Make({.id = "cmpl-1",
                                  .facts = {.model = "tiny",
                                            .system_fingerprint = "fp_1",
                                            .created_unix_seconds = 7,
                                            .tokenizer = &tokenizer_},
                                  .format = &format},
                                 request_);
  }
  void Completion(const std::string& fields) {
    Parse(CompletionFormat(), R"({"prompt": "Hi", )" + fields + "}");
  }
  void Chat(const std::string& fields) {
    Parse(ChatFormat(), R"({"messages": [{"role": "user", "content": "Hi"}], )" + fields + "}");
  }
  // What these messages, which came together, add to the answer.
  std::string Add(const std::vector<std::string>& messages, uint32_t prompt = 0) {
    std::vector<v1::GenerateResponse> parsed;
    for (const std::string& text : messages) parsed.push_back(ParseResponse(text));
    std::string out;
    writer_->Add(prompt, parsed, out);
    return out;
  }
  std::string Finish() {
    std::string out;
    writer_->Finish(out);
    return out;
  }

  const lockstep::testing::ByteTokenizer tokenizer_;
  OpenAiRequest request_;
  std::unique_ptr<AnswerWriter> writer_;
};

inline constexpr char kPromptInfo[] =
    "prompt_info { request_id: 'r' prompt_tokens: 3 cached_tokens: 2 }";
inline constexpr char kLength[] = "finish { index: 0 reason: FINISH_REASON_LENGTH }";
inline constexpr char kUsage[] = R"({"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
                                 R"("prompt_tokens_details":{"cached_tokens":2}})";

}  // namespace lockstep::router
