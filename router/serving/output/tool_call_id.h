#pragma once

#include <cstdint>
#include <string>

#include "router/calls/output_format.h"
#include "router/core/messages/request.h"

namespace lockstep::router {

// The id of a call of a tool: "call_" and 24 letters and digits. Models of Mistral know only ids of
// 9 letters and digits. The id depends on the request, the sample and the number of the call alone,
// so a request that moved to another worker keeps its ids.
std::string ToolCallId(const OutputFormat& format, const Request& request, uint32_t sample,
                       uint32_t call);

}  // namespace lockstep::router
