#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/core/messages/request.h"
#include "router/tracing/request_trace.h"

namespace lockstep::router {

// What a call tells of itself to its trace, by the attributes of OpenTelemetry's conventions for
// generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans). No text of the
// request or of its answer, no key, and no name of a tenant.

// "chat" or "text_completion".
std::string_view OperationName(bool is_chat);

// As the conventions have it: operation and model.
std::string SpanName(std::string_view operation, std::string_view model);

// The name of the span, and what was asked for.
void TraceRequest(const lockstep::v1::GenerateRequest& message, const Request& request,
                  std::string_view model, RequestTrace& trace);

// Output on its way to the client: so many tokens, and the messages made of them.
void TraceOutput(size_t num_tokens, std::span<const lockstep::v1::GenerateResponse> messages,
                 RequestTrace& trace);

}  // namespace lockstep::router
