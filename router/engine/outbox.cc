#include "router/engine/outbox.h"

#include <iterator>
#include <utility>

namespace lockstep::router {
namespace {

size_t BytesOf(const std::vector<TokenLogprobs>& entries) {
  size_t bytes = entries.size() * sizeof(TokenLogprobs);
  for (const TokenLogprobs& entry : entries) bytes += entry.top.size() * sizeof(entry.top[0]);
  return bytes;
}

}  // namespace

Outbox::Outbox(size_t max_pending_bytes, std::function<void()> on_ready)
    : max_pending_bytes_(max_pending_bytes), on_ready_(std::move(on_ready)) {}

SampleOutput& Outbox::Sample(uint32_t index) {
  for (SampleOutput& sample : pending_.samples) {
    if (sample.sample_index == index) return sample;
  }
  if (index >= first_token_at_.size()) first_token_at_.resize(index + 1, absl::InfiniteFuture());
  SampleOutput& sample = pending_.samples.emplace_back();
  sample.sample_index = index;
  sample.first_token_at = first_token_at_[index];
  return sample;
}

bool Outbox::Reserve(size_t bytes) {
  if (bytes > max_pending_bytes_ - pending_bytes_) return false;
  pending_bytes_ += bytes;
  return true;
}

void Outbox::Admit(uint32_t num_cached_tokens, absl::Time now) {
  MutexLock lock(mutex_);
  pending_.admission = {.num_cached_tokens = num_cached_tokens, .at = now};
  has_news_ = true;
}

void Outbox::AddPromptLogprobs(std::vector<TokenLogprobs> entries) {
  MutexLock lock(mutex_);
  pending_.prompt_logprobs = std::move(entries);
  has_news_ = true;
}

bool Outbox::AddTokens(TokensEvent event, absl::Time now) {
  MutexLock lock(mutex_);
  if (!Reserve(event.tokens.size() * sizeof(TokenId) + BytesOf(event.logprobs))) return false;
  SampleOutput& sample = Sample(event.sample_index);
  if (sample.first_token_at == absl::InfiniteFuture()) {
    sample.first_token_at = now;
    first_token_at_[event.sample_index] = now;
  }
  if (sample.tokens.empty()) {
    sample.tokens = std::move(event.tokens);
  } else {
    sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  sample.logprobs.insert(sample.logprobs.end(), std::make_move_iterator(event.logprobs.begin()),
                         std::make_move_iterator(event.logprobs.end()));
  has_news_ = true;
  return true;
}

void Outbox::EndSample(const FinishedEvent& event, absl::Time now) {
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
  pending_bytes_ = 0;
  has_news_ = false;
  return std::exchange(pending_, {});
}

}  // namespace lockstep::router
