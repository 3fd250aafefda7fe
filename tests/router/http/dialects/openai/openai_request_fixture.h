#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "router/http/dialects/openai/body/openai_request.h"

namespace lockstep::router {

inline v1::GenerateRequest ParseText(const std::string& text) {
  v1::GenerateRequest message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

inline void ExpectSame(const v1::GenerateRequest& got, const std::string& expected) {
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(got, ParseText(expected)))
      << got.DebugString();
}

inline void ExpectError(const absl::Status& status, absl::StatusCode code,
                        const std::string& words) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(Message(status), ::testing::StartsWith(words));
}

}  // namespace lockstep::router
