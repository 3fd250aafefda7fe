#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <gmock/gmock.h>

#include <ostream>

#include "common/status.h"

namespace lockstep {

inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(result, HasError(absl::StatusCode::kNotFound, HasSubstr("model.gguf")));
MATCHER_P2(HasError, code, message_matcher, "has the error's code and message") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message_matcher, Message(status), result_listener);
}

}  // namespace lockstep
