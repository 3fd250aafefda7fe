#include "bench/router/cost/load.h"

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>

#include "common/runtime/wait_until.h"

namespace lockstep::bench {
namespace {

constexpr std::string_view kWords[] = {
    "the",   "of",    "water", "house", "light", "under", "there", "which", "again", "small",
    "never", "place", "great", "world", "still", "every", "found", "those", "right", "while"};
// Below this every vocabulary has bytes and merges, and few has anything special.
constexpr uint32_t kFirstPromptToken = 3;
constexpr uint32_t kMaxPromptToken = 250;

}  // namespace

void LoadRecord::AddChunks(uint64_t num_chunks, uint64_t num_tokens, bool first) {
  MutexLock lock(mutex_);
  counts_.num_chunks += num_chunks;
  counts_.num_tokens += num_tokens;
  if (!first) return;
  ++counts_.num_begun;
  changed_.NotifyAll();
}

void LoadRecord::AddEnd(uint64_t num_tokens_besides) {
  MutexLock lock(mutex_);
  counts_.num_tokens += num_tokens_besides;
  ++counts_.num_ended;
  changed_.NotifyAll();
}

void LoadRecord::AddFailure(std::string error) {
  MutexLock lock(mutex_);
  if (counts_.error.empty()) counts_.error = std::move(error);
  changed_.NotifyAll();
}

void LoadRecord::AddFirstTokenTime(double seconds) {
  MutexLock lock(mutex_);
  first_token_seconds_.push_back(seconds);
}

LoadCounts LoadRecord::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

std::vector<double> LoadRecord::first_token_seconds() const {
  MutexLock lock(mutex_);
  return first_token_seconds_;
}

bool LoadRecord::WaitUntil(absl::Duration timeout,
                           const std::function<bool(const LoadCounts&)>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  for (;;) {
    if (!counts_.error.empty()) return false;
    if (holds(counts_)) return true;
    if (!lockstep::WaitUntil(mutex_, changed_, deadline)) return false;
  }
}

std::vector<uint32_t> PromptTokens(const StreamShape& shape, uint32_t index) {
  std::mt19937 random(index);
  std::uniform_int_distribution<uint32_t> token(kFirstPromptToken,
                                                std::min(kMaxPromptToken, shape.vocab_size - 1));
  std::vector<uint32_t> tokens(shape.num_prompt_tokens);
  for (uint32_t& one : tokens) one = token(random);
  return tokens;
}

std::string PromptText(const StreamShape& shape, uint32_t index) {
  std::mt19937 random(index);
  std::uniform_int_distribution<size_t> word(0, std::size(kWords) - 1);
  std::string text;
  for (uint32_t i = 0; i < shape.num_prompt_tokens; ++i) {
    text += kWords[word(random)];
    text += ' ';
  }
  return text;
}

}  // namespace lockstep::bench
