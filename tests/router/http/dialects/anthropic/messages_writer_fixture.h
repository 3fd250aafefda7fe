#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "router/http/dialects/anthropic/messages_writer.h"

// Messages of an output, and the answers that they become.
namespace lockstep::router {

inline lockstep::v1::GenerateResponse Response(const std::string& text) {
  lockstep::v1::GenerateResponse message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}
inline std::vector<lockstep::v1::GenerateResponse> Responses(
    const std::vector<std::string>& texts) {
  std::vector<lockstep::v1::GenerateResponse> messages;
  for (const std::string& text : texts) messages.push_back(Response(text));
  return messages;
}

inline constexpr char kPromptInfo[] =
    "prompt_info { request_id: 'r' prompt_tokens: 25 cached_tokens: 16 }";
inline std::string Finish(const std::string& reason, uint32_t num_tokens,
                          const std::string& more = "") {
  return "finish { reason: FINISH_REASON_" + reason +
         " usage { prompt_tokens: 25 cached_tokens: 16 completion_tokens: " +
         std::to_string(num_tokens) + " " + more + " } }";
}
inline std::string Text(const std::string& text) {
  return "delta { token_ids: 1 text: '" + text + "' }";
}
inline std::string Thought(const std::string& text) {
  return "delta { token_ids: 1 reasoning: '" + text + "' }";
}
inline std::string CallBegin(int index, const std::string& name) {
  const std::string number = std::to_string(index);
  return "delta { token_ids: 1 tool_calls { index: " + number + " id: 'call_" + number +
         "' name: '" + name + "' } }";
}
inline std::string Arguments(int index, const std::string& piece) {
  return "delta { token_ids: 1 tool_calls { index: " + std::to_string(index) + " arguments: '" +
         piece + "' } }";
}

inline MessageFrame Frame() {
  return {.request_id = "r-1", .model = "tiny", .max_tokens = 100, .names_tool = false};
}

inline std::string Write(const std::vector<lockstep::v1::GenerateResponse>& messages, bool stream,
                         const MessageFrame& frame = Frame()) {
  const auto writer = MakeMessageWriter(frame, stream);
  std::string out;
  writer->Add(0, messages, out);
  writer->Finish(out);
  return out;
}

// The events of a stream. Each has the name of its type.
inline std::vector<std::string> Events(const std::string& stream) {
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << stream.substr(at);
    if (end == std::string::npos) break;
    const std::string event = stream.substr(at, end - at);
    at = end + 2;
    const size_t data = event.find("\ndata: ");
    EXPECT_NE(data, std::string::npos) << event;
    if (data == std::string::npos) break;
    events.push_back(event.substr(data + 7));
    EXPECT_EQ(event.substr(0, data),
              "event: " + nlohmann::json::parse(events.back())["type"].get<std::string>());
  }
  return events;
}

}  // namespace lockstep::router
