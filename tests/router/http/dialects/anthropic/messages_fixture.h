#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "router/http/dialects/anthropic/messages_request.h"

namespace lockstep::router {

// A body with these members beside the ones that every body has.
inline std::string MessagesBody(
    const std::string& fields,
    const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model": "tiny", "max_tokens": 9, "messages": )" + messages +
         (fields.empty() ? "" : ", ") + fields + "}";
}

inline MessagesRequest ParseGood(const std::string& body, const BodyReading& reading = {}) {
  absl::StatusOr<MessagesRequest> request = ParseMessagesRequest(body, reading);
  EXPECT_TRUE(request.ok()) << request.status() << body;
  if (request.ok()) return *std::move(request);
  MessagesRequest none;
  none.prompts.emplace_back();
  return none;
}

// The chat of a body, as protobuf's text format writes it.
inline void ExpectChat(const lockstep::v1::ChatPrompt& got, const std::string& expected) {
  lockstep::v1::ChatPrompt message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &message)) << expected;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(got, message))
      << got.DebugString() << "expected\n"
      << message.DebugString();
}

}  // namespace lockstep::router
