#include "router/mailboxes/outbox.h"

#include <iterator>
#include <utility>

#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

size_t BytesOf(const std::vector<TokenLogprobs>& entries) {
  size_t bytes = entries.size() * sizeof(TokenLogprobs);
  for (const TokenLogprobs& entry : entries) bytes += entry.top.size() * sizeof(entry.top[0]);
  return bytes;
}

// So few bytes are not counted. A reader that keeps up leaves fewer.
constexpr size_t kUnmeteredBytes = 1 << 10;
// The meter counts in pieces of this size, because all requests share it.
constexpr size_t kMeterPieceBytes = 4 << 10;

size_t MeteredBytes(size_t num_bytes) {
  if (num_bytes <= kUnmeteredBytes) return 0;
  return (num_bytes + kMeterPieceBytes - 1) / kMeterPieceBytes * kMeterPieceBytes;
}

}  // namespace

Outbox::Outbox(size_t max_pending_bytes, std::function<void()> on_ready, OutputMeter meter)
    : max_pending_bytes_(max_pending_bytes),
      on_ready_(std::move(on_ready)),
      meter_(std::move(meter)) {}

SampleOutput& Outbox::Sample(uint32_t index) {
  for (SampleOutput& sample : pending_.samples) {
    if (sample.sample_index == index) return sample;
  }
  if (index >= first_token_at_.size()) first_token_at_.resize(index + 1, Instant::InfiniteFuture());
  SampleOutput& sample = pending_.samples.emplace_back();
  sample.sample_index = index;
  sample.first_token_at = first_token_at_[index];
  return sample;
}

absl::Status Outbox::Reserve(size_t num_output_bytes, size_t num_prompt_bytes) {
  if (num_output_bytes > max_pending_bytes_ - num_output_bytes_) {
    return absl::AbortedError("the client reads too slowly: too much output waits for it");
  }
  const size_t num_metered_bytes =
      MeteredBytes(num_output_bytes_ + num_output_bytes + num_prompt_bytes_ + num_prompt_bytes);
  if (meter_ != nullptr && num_metered_bytes != num_metered_bytes_) {
    if (!meter_(num_metered_bytes)) {
      return absl::ResourceExhaustedError("no room for the output that waits");
    }
    num_metered_bytes_ = num_metered_bytes;
  }
  num_output_bytes_ += num_output_bytes;
  num_prompt_bytes_ += num_prompt_bytes;
  return absl::OkStatus();
}

void Outbox::Start(uint32_t num_cached_tokens, Instant now) {
  MutexLock lock(mutex_);
  pending_.start = {.num_cached_tokens = num_cached_tokens, .at = now};
  has_news_ = true;
}

absl::Status Outbox::AddPromptLogprobs(std::vector<TokenLogprobs> entries) {
  MutexLock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(Reserve(0, BytesOf(entries)));
  pending_.prompt_logprobs = std::move(entries);
  has_news_ = true;
  return absl::OkStatus();
}

absl::Status Outbox::AddTokens(TokensEvent event, Instant now) {
  MutexLock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(
      Reserve(event.tokens.size() * sizeof(TokenId) + BytesOf(event.logprobs), 0));
  SampleOutput& sample = Sample(event.sample_index);
  if (sample.first_token_at == Instant::InfiniteFuture()) {
    sample.first_token_at = now;
    first_token_at_[event.sample_index] = now;
  }
  sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
  sample.logprobs.insert(sample.logprobs.end(), std::make_move_iterator(event.logprobs.begin()),
                         std::make_move_iterator(event.logprobs.end()));
  sample.num_drafted += event.num_drafted;
  sample.num_accepted_drafts += event.num_accepted_drafts;
  has_news_ = true;
  return absl::OkStatus();
}

void Outbox::EndSample(const FinishedEvent& event, Instant now) {
  MutexLock lock(mutex_);
  Sample(event.sample_index).end = {.reason = event.reason,
                                    .stop_token = event.stop_token,
                                    .num_generated_tokens = event.num_generated_tokens,
                                    .at = now};
  has_news_ = true;
}

void Outbox::End(absl::Status status) {
  MutexLock lock(mutex_);
  pending_.end = std::move(status);
  has_news_ = true;
}

void Outbox::Notify() {
  {
    MutexLock lock(mutex_);
    if (!has_news_) return;
  }
  on_ready_();
}

RequestOutput Outbox::Take() {
  MutexLock lock(mutex_);
  num_output_bytes_ = 0;
  num_prompt_bytes_ = 0;
  if (std::exchange(num_metered_bytes_, 0) > 0) meter_(0);
  has_news_ = false;
  return std::exchange(pending_, {});
}

}  // namespace lockstep::router
