#include "router/serving/calls/api_context.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/violations.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

namespace {

uint64_t RandomBits() {
  std::random_device entropy;
  return uint64_t{entropy()} << 32 | entropy();
}

}  // namespace

absl::Status ApiConfig::Validate() const {
  Violations violations;
  violations.Merge(limits.Validate());
  violations.Require(default_timeout > absl::ZeroDuration(), "default_timeout: must be positive");
  violations.Require(retry_after >= absl::ZeroDuration() && retry_after <= absl::Hours(1),
                     "retry_after: must be from 0 to 1h");
  violations.Require(stalled_client_timeout > absl::ZeroDuration(),
                     "stalled_client_timeout: must be positive");
  violations.Require(max_open_text_calls > 0, "max_open_text_calls: must be at least 1");
  return violations.ToStatus();
}

ApiContext::ApiContext(ApiConfig api_config, const ServingParts& parts, Engine& its_engine,
                       StrandRunner& pool, Gatekeeper& keeper)
    : ServingParts(parts),
      config(std::move(api_config)),
      engine(its_engine),
      encode_pool(pool),
      gatekeeper(keeper),
      started(parts.clock.TimeOfDay()),
      encoder(parts.model, config.parse_special),
      request_bounds(RequestBounds(config.limits, parts.model.config.max_context_tokens)),
      text_places(config.max_open_text_calls),
      seeds_(RandomBits()),
      id_prefix_(fmt::format("request-{:08x}-", seeds_() >> 32)) {}

ModelFacts ApiContext::Facts() const {
  const std::shared_ptr<const worker::v1::DescribeResponse> worker = engine.largest_worker();
  uint32_t context_tokens = model.config.max_context_tokens;
  // The worker's limits are unknown until the first worker has come.
  if (worker->incarnation() != 0) {
    const WorkerLimits limits = LimitsOf(*worker);
    // A sequence that does not fit the KV cache even alone could never end.
    const uint64_t pool_tokens = limits.max_cached_tokens();
    context_tokens = static_cast<uint32_t>(
        std::min<uint64_t>({context_tokens, limits.max_context_tokens, pool_tokens}));
  }
  return {.id = model.id,
          .aliases = model.aliases,
          .vocab_size = model.config.vocab_size,
          .max_context_tokens = context_tokens,
          .has_chat_template = model.chat_template != nullptr,
          .parses_calls = model.output_format != nullptr && HasCalls(*model.output_format),
          .enforces_constraints = constraints != nullptr,
          .eos_token_ids = model.config.eos_token_ids,
          .defaults = model.config.generation_defaults};
}

RequestLimits ApiContext::Limits() const {
  RequestLimits limits = config.limits;
  const std::shared_ptr<const worker::v1::DescribeResponse> worker = engine.largest_worker();
  // The worker's limits are unknown until the first worker has come. Requests are refused until
  // then.
  if (worker->incarnation() != 0) {
    limits.max_logprobs = std::min(limits.max_logprobs, worker->max_logprobs());
  }
  return limits;
}

absl::Status ApiContext::WhyNotEncoded(absl::Status status) const {
  if (!absl::IsCancelled(status) || !closing.cancelled()) return status;
  return absl::UnavailableError("the router is shutting down");
}

std::string ApiContext::MakeRequestId(RequestKey key) const {
  return fmt::format("{}{}", id_prefix_, key);
}

std::shared_ptr<RequestTrace> ApiContext::BeginTrace(const std::optional<TraceContext>& parent,
                                                     std::string_view name) const {
  return tracer == nullptr ? nullptr : tracer->Begin(parent, std::string(name));
}

uint64_t ApiContext::DrawSeed() {
  MutexLock lock(mutex_);
  return seeds_() >> 11;
}

}  // namespace lockstep::router
