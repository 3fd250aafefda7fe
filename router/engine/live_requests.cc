#include "router/engine/live_requests.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "router/strands/strand.h"

namespace lockstep::router {
namespace {

// So many readers are notified before their threads are woken.
constexpr size_t kNotifiedAtATime = 256;

absl::Status EndStatus(CancelCause cause) {
  switch (cause) {
    case CancelCause::kClient:
      return absl::CancelledError("the client cancelled the call");
    case CancelCause::kAborted:
      return absl::OkStatus();
    case CancelCause::kShutdown:
      return absl::UnavailableError("the router is shutting down");
  }
  return absl::OkStatus();
}

FinishedAs FinishedAsOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return FinishedAs::kStop;
    case FinishReason::kLength:
      return FinishedAs::kLength;
    case FinishReason::kAborted:
      return FinishedAs::kAbort;
  }
  return FinishedAs::kError;
}

}  // namespace

void LiveRequests::Add(Submission submission) {
  const Request& request = *submission.request;
  const RequestKey key = request.key;
  Delivery delivery{.submission = {},
                    .samples = std::vector<Delivery::Sample>(request.num_samples),
                    .num_open_samples = request.num_samples,
                    .started = false,
                    .lost_worker = false,
                    .end_status = absl::OkStatus()};
  delivery.submission = std::move(submission);
  const bool is_new = live_.emplace(key, std::move(delivery)).second;
  LOCKSTEP_CHECK(is_new, "request key {} was used twice", key);
}

void LiveRequests::Adopt(Delivery delivery) {
  const RequestKey key = delivery.submission.request->key;
  const bool is_new = live_.emplace(key, std::move(delivery)).second;
  LOCKSTEP_CHECK(is_new, "request {} is here already", key);
}

void LiveRequests::NoteMoved(RequestKey key, Instant now) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  if (RequestTrace* const trace = found->second.submission.trace.get()) {
    trace->OnMoved(worker_, now);
  }
}

void LiveRequests::NoteWorkerLost(Instant now) {
  for (auto& [key, live] : live_) {
    live.lost_worker = true;
    if (live.started && live.submission.trace != nullptr) {
      live.submission.trace->OnWorkerLost(worker_, now);
    }
  }
}

uint32_t LiveRequests::TakeResumed() {
  uint32_t num_resumed = 0;
  for (auto& [key, live] : live_) {
    if (std::exchange(live.lost_worker, false)) ++num_resumed;
  }
  return num_resumed;
}

Delivery LiveRequests::Release(RequestKey key) {
  const auto found = live_.find(key);
  LOCKSTEP_CHECK(found != live_.end(), "request {} is not here", key);
  Delivery delivery = std::move(found->second);
  live_.erase(found);
  size_t num_news = 0;
  for (auto* const outboxes : {&touched_, &started_, &started_before_}) {
    num_news += std::erase(*outboxes, delivery.submission.outbox);
  }
  if (num_news > 0) delivery.submission.outbox->Notify();
  return delivery;
}

void LiveRequests::Refuse(Submission submission, absl::Status status) {
  ended_.push_back(submission.request->key);
  submission.ticket->StopWaiting();
  submission.outbox->End(std::move(status));
  touched_.push_back(std::move(submission.outbox));
}

bool LiveRequests::SetCancelled(RequestKey key, CancelCause cause) {
  const auto found = live_.find(key);
  if (found == live_.end()) return false;
  if (cause == CancelCause::kClient) {
    const RequestStage stage =
        found->second.started ? RequestStage::kRunning : RequestStage::kQueued;
    RouterMetrics::At(metrics_.requests_cancelled_total, stage).Increment();
  }
  found->second.end_status = EndStatus(cause);
  return true;
}

std::vector<RequestKey> LiveRequests::keys() const {
  std::vector<RequestKey> keys;
  keys.reserve(live_.size());
  for (const auto& [key, live] : live_) keys.push_back(key);
  return keys;
}

void LiveRequests::NotifyReaders() {
  StrandRunner::WakeLater wakes;
  for (size_t i = 0; i < touched_.size(); ++i) {
    // Notified readers may begin while the rest are being notified.
    if (i % kNotifiedAtATime == 0) wakes.Wake();
    touched_[i]->Notify();
  }
  touched_.clear();
}

void LiveRequests::OnResult() {
  touched_.insert(touched_.end(), std::make_move_iterator(started_before_.begin()),
                  std::make_move_iterator(started_before_.end()));
  started_before_ = std::exchange(started_, {});
}

void LiveRequests::Deliver(Scheduler& scheduler, Instant now) {
  for (;;) {
    std::vector<SchedulerEvent> events = scheduler.TakeEvents();
    if (events.empty()) return;
    for (SchedulerEvent& event : events) DeliverOne(std::move(event), now);
    // Cancelling makes new events.
    for (const RequestKey key : std::exchange(to_cancel_, {})) scheduler.Cancel(key, now);
  }
}

void LiveRequests::DeliverOne(SchedulerEvent event, Instant now) {
  std::visit(
      [&](auto& alternative) {
        // Sequences of a request that has ended may still have events.
        const auto found = live_.find(alternative.request);
        if (found == live_.end()) return;
        using Event = std::remove_reference_t<decltype(alternative)>;
        // A reader is not notified of a preemption.
        if constexpr (!std::is_same_v<Event, PreemptedEvent>) {
          const bool is_start = std::is_same_v<Event, StartedEvent>;
          (is_start ? started_ : touched_).push_back(found->second.submission.outbox);
        }
        DeliverTo(found->second, std::move(alternative), now);
      },
      event);
}

void LiveRequests::DeliverTo(Delivery& live, StartedEvent event, Instant now) {
  const Request& request = *live.submission.request;
  live.started = true;
  live.started_at = now;
  live.submission.ticket->StopWaiting();
  if (live.submission.trace != nullptr) {
    live.submission.trace->OnStarted(worker_, event.num_cached_tokens, now);
  }
  live.submission.outbox->Start(event.num_cached_tokens, now);
  metrics_.queue_wait_seconds->Observe(absl::ToDoubleSeconds(now - request.arrival));
  metrics_.prompt_tokens_total->Increment(static_cast<double>(request.prompt_tokens.size()));
  metrics_.prompt_tokens_cached_total->Increment(event.num_cached_tokens);
  metrics_.request_prompt_tokens->Observe(static_cast<double>(request.prompt_tokens.size()));
  metrics_.request_max_tokens->Observe(request.sampling.max_new_tokens);
  metrics_.request_samples->Observe(request.num_samples);
}

void LiveRequests::DeliverTo(Delivery& live, PromptLogprobsEvent event, Instant now) {
  absl::Status status = live.submission.outbox->AddPromptLogprobs(std::move(event.entries));
  if (!status.ok()) EndUnread(live, std::move(status), now);
}

void LiveRequests::DeliverTo(Delivery& live, TokensEvent event, Instant now) {
  ObserveTokens(live, event.sample_index, event.tokens.size(), now);
  absl::Status status = live.submission.outbox->AddTokens(std::move(event), now);
  if (!status.ok()) EndUnread(live, std::move(status), now);
}

void LiveRequests::DeliverTo(Delivery& live, FinishedEvent event, Instant now) {
  // One failed sequence fails the call, because a stream ends with one status.
  if (!event.error.ok()) return End(live, event.error, now);
  RouterMetrics::At(metrics_.requests_finished_total, FinishedAsOf(event.reason)).Increment();
  const Delivery::Sample& sample = live.samples.at(event.sample_index);
  if (sample.num_tokens > 1) {
    const absl::Duration decoding = sample.last_token_at - sample.first_token_at;
    metrics_.time_per_output_token_seconds->Observe(absl::ToDoubleSeconds(decoding) /
                                                    (sample.num_tokens - 1));
  }
  metrics_.sequence_generation_tokens->Observe(sample.num_tokens);
  live.submission.outbox->EndSample(event, now);
  if (--live.num_open_samples == 0) End(live, live.end_status, now);
}

void LiveRequests::DeliverTo(Delivery& live, PreemptedEvent /*event*/, Instant now) {
  if (live.submission.trace != nullptr) live.submission.trace->OnPreempted(now);
}

void LiveRequests::ObserveTokens(Delivery& live, uint32_t sample_index, size_t count, Instant now) {
  if (count == 0) return;
  Delivery::Sample& sample = live.samples.at(sample_index);
  metrics_.generation_tokens_total->Increment(static_cast<double>(count));
  size_t num_gaps = count;
  if (sample.num_tokens == 0) {
    const absl::Duration wait = now - live.submission.request->arrival;
    metrics_.time_to_first_token_seconds->Observe(absl::ToDoubleSeconds(wait));
    sample.first_token_at = now;
    sample.last_token_at = now;
    if (live.submission.trace != nullptr) live.submission.trace->OnFirstToken(now);
    --num_gaps;
  }
  const double gap = absl::ToDoubleSeconds(now - sample.last_token_at) / static_cast<double>(count);
  for (size_t i = 0; i < num_gaps; ++i) metrics_.inter_token_latency_seconds->Observe(gap);
  sample.last_token_at = now;
  sample.num_tokens += static_cast<uint32_t>(count);
}

// Call at the end of a request that had a slot. If no token came, all of its time was prefill.
void LiveRequests::ObservePhases(const Delivery& live, Instant now) {
  Instant first_token_at = now;
  uint32_t longest = 0;
  for (const Delivery::Sample& sample : live.samples) {
    first_token_at = std::min(first_token_at, sample.first_token_at);
    longest = std::max(longest, sample.num_tokens);
  }
  const auto observe = [](prometheus::Histogram* histogram, absl::Duration time) {
    histogram->Observe(absl::ToDoubleSeconds(time));
  };
  observe(metrics_.request_prefill_seconds, first_token_at - live.started_at);
  observe(metrics_.request_decode_seconds, now - first_token_at);
  observe(metrics_.request_inference_seconds, now - live.started_at);
  metrics_.request_longest_generation_tokens->Observe(longest);
}

void LiveRequests::EndUnread(Delivery& live, absl::Status reason, Instant now) {
  const RequestTrace* const trace = live.submission.trace.get();
  spdlog::warn("request {}{} ended: {}", live.submission.request->id,
               trace == nullptr ? "" : " trace_id=" + trace->trace_id(), Message(reason));
  End(live, std::move(reason), now);
}

void LiveRequests::End(Delivery& live, absl::Status status, Instant now) {
  const Request& request = *live.submission.request;
  const RequestKey key = request.key;
  if (live.num_open_samples > 0) {
    to_cancel_.push_back(key);
    RouterMetrics::At(metrics_.requests_finished_total, FinishedAs::kError)
        .Increment(live.num_open_samples);
  }
  metrics_.request_duration_seconds->Observe(absl::ToDoubleSeconds(now - request.arrival));
  if (live.started) ObservePhases(live, now);
  live.submission.ticket->StopWaiting();
  live.submission.outbox->End(std::move(status));
  live_.erase(key);
  ended_.push_back(key);
}

}  // namespace lockstep::router
