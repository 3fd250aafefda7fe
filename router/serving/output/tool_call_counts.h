#pragma once

#include <cstdint>

namespace lockstep::router {

// Calls of tools in the output of a request.
struct ToolCallCounts {
  uint32_t num_whole = 0;
  uint32_t num_broken = 0;  // not counting what the limit of tokens cut off
};

}  // namespace lockstep::router
