#pragma once

#include <span>
#include <string>

#include "opentelemetry/trace_service.pb.h"
#include "router/tracing/span.h"

namespace lockstep::router {

// Converts spans to OTLP (proto/opentelemetry/trace_service.proto). Bytes above ASCII become '?',
// because a collector refuses a whole message for bad UTF-8.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest MakeOtlpMessage(
    std::span<const Span> spans, const std::string& service_name);

}  // namespace lockstep::router
