#include "common/rpc/rpc_status.h"

#include <gtest/gtest.h>

#include <string>

#include "common/status.h"

namespace lockstep {
namespace {

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
