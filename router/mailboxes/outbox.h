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

// How one sequence of a request ended.
struct SampleEnd {
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  uint32_t num_generated_tokens = 0;
  Instant at;
};

// What happened to one sequence of a request since the last Take.
struct SampleOutput {
  uint32_t sample_index = 0;
  absl::InlinedVector<TokenId, 4> tokens;              // most often one
  std::vector<TokenLogprobs> logprobs;                 // one per token if asked for
  uint32_t num_drafted = 0, num_accepted_drafts = 0;   // as in TokensEvent
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
  // Only samples with news, in order of their first news. Most requests have one sample. Its news
  // then needs no heap memory that one thread allocates and another frees.
  absl::InlinedVector<SampleOutput, 1> samples;
  std::optional<absl::Status> end;  // nothing follows; not OK: the request failed
};

// Counts the bytes in an outbox, except a small number of them. Returns false if there is no room;
// the outbox then keeps its previous size. Called with a lock held.
using OutputMeter = std::function<bool(size_t num_bytes)>;

// Carries output from the loop to the reader of one request. A reader that lags finds everything
// since its last Take merged into one output, so the loop never waits for it. If more than
// `max_pending_bytes` have merged, or the meter says no, the outbox refuses more and the loop ends
// the request. The log-probabilities of the prompt count for the meter only. They come once, at any
// size that validation allows.
//
// One writer at a time: the loop of the replica that has the request. Before it hands the request
// over, it notifies the reader of everything that it wrote. One reader at a time.
class Outbox {
 public:
  // `on_ready` is called on the writer's thread if there is news that no Take has fetched yet. It
  // must not block.
  Outbox(size_t max_pending_bytes, std::function<void()> on_ready, OutputMeter meter = nullptr);

  // --- the loop; nothing after End ---
  void Start(uint32_t num_cached_tokens, Instant now);
  // These two keep nothing if they fail. ABORTED: the reader is too far behind. RESOURCE_EXHAUSTED:
  // the meter said no.
  absl::Status AddPromptLogprobs(std::vector<TokenLogprobs> entries);
  absl::Status AddTokens(TokensEvent event, Instant now);
  void EndSample(const FinishedEvent& event, Instant now);
  void End(absl::Status status);
  // Calls `on_ready` if there is news.
  void Notify();

  // --- the reader ---
  RequestOutput Take();

 private:
  SampleOutput& Sample(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the bytes, or fails.
  absl::Status Reserve(size_t num_output_bytes, size_t num_prompt_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_pending_bytes_;
  const std::function<void()> on_ready_;
  const OutputMeter meter_;  // null: not counted
  Mutex mutex_;
  RequestOutput pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Instant> first_token_at_ ABSL_GUARDED_BY(mutex_);  // by sample
  size_t num_output_bytes_ ABSL_GUARDED_BY(mutex_) = 0;          // that wait for the reader
  size_t num_prompt_bytes_ ABSL_GUARDED_BY(mutex_) = 0;   // of the prompt's log-probabilities
  size_t num_metered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // as last told to the meter
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
