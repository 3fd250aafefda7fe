#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/core/messages/request.h"
#include "router/tracing/request_trace.h"

namespace lockstep::router {

// Writes the attributes of a call to its trace, following OpenTelemetry's conventions for
// generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans). Never writes
// text of the request or answer, keys, or tenant names.

// "chat" or "text_completion".
std::string_view OperationName(bool is_chat);

// The span's name by these conventions: operation and model.
std::string SpanName(std::string_view operation, std::string_view model);

// Sets the span's name and the request's attributes.
void TraceRequest(const lockstep::v1::GenerateRequest& message, const Request& request,
                  std::string_view model, RequestTrace& trace);

// Records output that goes to the client: `num_tokens` tokens and the messages made from them.
void TraceOutput(size_t num_tokens, std::span<const lockstep::v1::GenerateResponse> messages,
                 RequestTrace& trace);

}  // namespace lockstep::router
