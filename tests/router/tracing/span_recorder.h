#pragma once

#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/runtime/clock.h"
#include "router/tracing/tracer.h"

namespace lockstep::router::testing {

// Spans that no collector gets: a test takes them one by one.
class SpanRecorder {
 public:
  explicit SpanRecorder(const Clock& clock) : tracer_(1, "a-model", clock, queue_) {}

  Tracer& tracer() { return tracer_; }
  // Waits for the next request that ends.
  Span Next() { return queue_->TakeBatch().at(0); }
  // What has ended and was not taken. No request is recorded afterwards.
  std::vector<Span> Rest() {
    queue_->Close();
    std::vector<Span> rest;
    for (;;) {
      std::vector<Span> batch = queue_->TakeBatch();
      if (batch.empty()) return rest;
      rest.push_back(std::move(batch[0]));
    }
  }

 private:
  prometheus::Registry registry_;
  std::shared_ptr<SpanQueue> queue_ = std::make_shared<SpanQueue>(
      SpanQueue::Limits{.max_spans = 100, .max_batch_spans = 1}, SpanMetrics(registry_, "a-model"));
  Tracer tracer_;
};

// Null if the span has no such attribute.
inline const SpanValue* FindAttribute(const Span& span, std::string_view key) {
  for (const SpanAttribute& attribute : span.attributes) {
    if (attribute.key == key) return &attribute.value;
  }
  return nullptr;
}
// Empty if the span has no such attribute, or one of another type.
inline std::string TextAttribute(const Span& span, std::string_view key) {
  const SpanValue* const value = FindAttribute(span, key);
  const std::string* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}
// Likewise -1.
inline int64_t NumberAttribute(const Span& span, std::string_view key) {
  const SpanValue* const value = FindAttribute(span, key);
  const int64_t* const number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return number == nullptr ? -1 : *number;
}
// The names of its events, with their worker if they have one: "started worker:1".
inline std::vector<std::string> EventsOf(const Span& span) {
  std::vector<std::string> events;
  for (const SpanEvent& event : span.events) {
    std::string text(event.name);
    for (const SpanAttribute& attribute : event.attributes) {
      if (attribute.key == "lockstep.worker") text += " " + std::get<std::string>(attribute.value);
    }
    events.push_back(std::move(text));
  }
  return events;
}

}  // namespace lockstep::router::testing
