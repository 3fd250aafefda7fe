#include "common/rpc/rpc_status.h"

#include <gtest/gtest.h>

#include <string>

#include "common/status.h"

namespace lockstep {
namespace {

TEST(RpcStatusTest, MessagesSurviveTheirEncoding) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string encoded = EncodeRpcMessage(all);
  for (const char c : encoded) EXPECT_TRUE(c >= ' ' && c <= '~');
  EXPECT_EQ(DecodeRpcMessage(encoded), all);
  EXPECT_EQ(EncodeRpcMessage("50 %"), "50 %25");
  for (const char* const broken : {"%", "%4", "%zz", "a%", "%4z"}) {
    EXPECT_EQ(DecodeRpcMessage(broken), broken);
  }
  EXPECT_EQ(DecodeRpcMessage("%41%6a"), "Aj");
}

TEST(RpcStatusTest, WhatAnAnswerSays) {
  const struct {
    const char* code;
    const char* http;
    uint32_t reset;
    absl::StatusCode expected;
  } cases[] = {{"0", "200", 0, absl::StatusCode::kOk},
               {"14", "200", 0, absl::StatusCode::kUnavailable},
               {"17", "200", 0, absl::StatusCode::kUnknown},
               {"x", "200", 0, absl::StatusCode::kUnknown},
               {"", "503", 0, absl::StatusCode::kUnavailable},
               {"", "404", 0, absl::StatusCode::kUnimplemented},
               {"", "302", 0, absl::StatusCode::kUnknown},
               {"", "200", 8, absl::StatusCode::kCancelled},
               {"", "", 7, absl::StatusCode::kUnavailable},
               {"", "", 2, absl::StatusCode::kInternal}};
  for (const auto& [code, http, reset, expected] : cases) {
    EXPECT_EQ(RpcStatusOf(code, "text", http, reset).code(), expected) << code << http << reset;
  }
  EXPECT_EQ(Message(RpcStatusOf("3", "a%20b", "200", 0)), "a b");
}

}  // namespace
}  // namespace lockstep
