#pragma once

#include <span>
#include <string>

#include "opentelemetry/trace_service.pb.h"
#include "router/tracing/span.h"

namespace lockstep::router {

// Spans as OTLP has them (proto/opentelemetry/trace_service.proto). Text that is not UTF-8 is made
// so, because a collector would refuse the whole message.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest MakeOtlpMessage(
    std::span<const Span> spans, const std::string& service_name);

}  // namespace lockstep::router
