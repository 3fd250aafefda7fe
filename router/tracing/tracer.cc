#include "router/tracing/tracer.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "router/tracing/sampling.h"

namespace lockstep::router {
namespace {

// Two routers must not draw the same ids.
std::mt19937_64 SeededRandom() {
  std::random_device entropy;
  std::seed_seq seed{entropy(), entropy(), entropy(), entropy()};
  return std::mt19937_64(seed);
}

}  // namespace

Tracer::Tracer(double sample_ratio, std::string model, const Clock& clock,
               std::shared_ptr<SpanQueue> queue)
    : sample_ratio_(sample_ratio),
      model_(std::move(model)),
      clock_(clock),
      queue_(std::move(queue)),
      random_(SeededRandom()) {}

template <typename Id>
Id Tracer::DrawId() {
  Id id = {};
  MutexLock lock(mutex_);
  while (id == Id{}) {
    for (size_t i = 0; i < id.size(); i += sizeof(uint64_t)) {
      const uint64_t bits = random_();
      std::memcpy(id.data() + i, &bits, sizeof(bits));
    }
  }
  return id;
}

std::shared_ptr<RequestTrace> Tracer::Begin(const std::optional<TraceContext>& parent,
                                            std::string name) {
  if (parent.has_value() && !parent->sampled) return nullptr;
  Span span;
  if (parent.has_value()) {
    span.trace_id = parent->trace_id;
    span.parent_span_id = parent->parent_span_id;
    span.trace_state = parent->trace_state;
  } else {
    span.trace_id = DrawId<TraceId>();
    if (!IsSampled(span.trace_id, sample_ratio_)) return nullptr;
  }
  span.span_id = DrawId<SpanId>();
  span.name = std::move(name);
  span.start = clock_.TimeOfDay();
  span.attributes = {{"gen_ai.provider.name", "lockstep"}, {"gen_ai.request.model", model_}};
  return std::make_shared<RequestTrace>(std::move(span), clock_.Now(), queue_);
}

}  // namespace lockstep::router
