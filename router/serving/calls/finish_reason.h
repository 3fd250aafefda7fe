#pragma once

#include <string_view>

#include "lockstep/v1/generation.pb.h"

namespace lockstep::router {

// OpenAI's names, and "abort".
inline std::string_view FinishReasonName(lockstep::v1::FinishReason reason) {
  switch (reason) {
    case lockstep::v1::FINISH_REASON_STOP:
      return "stop";
    case lockstep::v1::FINISH_REASON_LENGTH:
      return "length";
    case lockstep::v1::FINISH_REASON_TOOL_CALLS:
      return "tool_calls";
    default:
      return "abort";
  }
}

}  // namespace lockstep::router
