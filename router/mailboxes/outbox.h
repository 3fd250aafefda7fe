#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/core/scheduler.h"

namespace lockstep::router {

// How one of a request's sequences ended.
struct SampleEnd {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  uint32_t num_generated_tokens = 0;
  Instant at;
};

// What happened to one of a request's sequences since the last Take.
struct SampleOutput {
  uint32_t sample_index = 0;
  absl::InlinedVector<TokenId, 4> tokens;              // most often one
  std::vector<TokenLogprobs> logprobs;                 // one per token when asked for
  Instant first_token_at = Instant::InfiniteFuture();  // of the whole sequence
  std::optional<SampleEnd> end;
};

struct RequestOutput {
  struct Start {
    uint32_t num_cached_tokens = 0;
    Instant at;
  };
  std::optional<Start> start;
  std::optional<std::vector<TokenLogprobs>> prompt_logprobs;
  // Only those with news, in order of their first. Most requests have one, whose news then needs no
  // memory that one thread takes and another gives back.
  absl::InlinedVector<SampleOutput, 1> samples;
  std::optional<absl::Status> end;  // nothing follows; not OK: the request failed
};

// Counts what an outbox holds beyond a little. False: there is no room for that, and it holds what
// it held before. Called with a lock held.
using OutputMeter = std::function<bool(size_t num_bytes)>;

// From the loop to the reader of one request. A reader that lags finds everything since its last
// Take merged into one output, so the loop never waits for it; when more than `max_pending_bytes`
// have merged, or the meter says no, the outbox refuses more and the loop ends the request. The
// prompt's log-probabilities count for the meter only: they come once, at whatever size validation
// let through. One writer at a time (the loop of the replica that has the request; when it hands
// the request over, it has told the reader of all that it wrote), one reader at a time.
class Outbox {
 public:
  // `on_ready` is called on the writer's thread after news came that no Take has fetched yet; it
  // must not block.
  Outbox(size_t max_pending_bytes, std::function<void()> on_ready, OutputMeter meter = nullptr);

  // --- the loop; nothing after End ---
  void Start(uint32_t num_cached_tokens, Instant now);
  // These two keep nothing when they fail: ABORTED, as the reader is too far behind, or
  // RESOURCE_EXHAUSTED, as the meter said no.
  absl::Status AddPromptLogprobs(std::vector<TokenLogprobs> entries);
  absl::Status AddTokens(TokensEvent event, Instant now);
  void EndSample(const FinishedEvent& event, Instant now);
  void End(absl::Status status);
  // Tells the reader, if there is something to tell.
  void Notify();

  // --- the reader ---
  RequestOutput Take();

 private:
  SampleOutput& Sample(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts them, or fails.
  absl::Status Reserve(size_t num_output_bytes, size_t num_prompt_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_pending_bytes_;
  const std::function<void()> on_ready_;
  const OutputMeter meter_;  // null: nobody counts
  Mutex mutex_;
  RequestOutput pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Instant> first_token_at_ ABSL_GUARDED_BY(mutex_);  // by sample
  size_t num_output_bytes_ ABSL_GUARDED_BY(mutex_) = 0;          // that wait
  size_t num_prompt_bytes_ ABSL_GUARDED_BY(mutex_) = 0;   // of the prompt's log-probabilities
  size_t num_metered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // that the meter knows of
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
