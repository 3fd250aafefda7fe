#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"

namespace lockstep::bench {

// What clients saw so far.
struct LoadCounts {
  uint64_t num_chunks = 0;  // messages with tokens, or server-sent events
  uint64_t num_tokens = 0;  // of server-sent events: known at the end of a stream
  uint32_t num_begun = 0;   // streams with a first token
  uint32_t num_ended = 0;   // streams that ended as they should
  std::string error;        // of the first that did not; empty: none
};

// Where the streams of a load count what they see; from any thread.
class LoadRecord {
 public:
  void AddChunks(uint64_t num_chunks, uint64_t num_tokens, bool first);
  void AddEnd(uint64_t num_tokens_besides);
  void AddFailure(std::string error);
  void AddFirstTokenTime(double seconds);

  LoadCounts counts() const;
  std::vector<double> first_token_seconds() const;
  // Until `holds`, which is asked whenever a stream begins, ends or fails. False when one failed,
  // or the time ran out.
  bool WaitUntil(absl::Duration timeout, const std::function<bool(const LoadCounts&)>& holds);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  LoadCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> first_token_seconds_ ABSL_GUARDED_BY(mutex_);
};

// What every stream of a load asks for.
struct StreamShape {
  uint32_t num_prompt_tokens = 16;
  uint32_t num_output_tokens = 1;
  uint32_t vocab_size = 0;
  bool as_text = false;  // the prompt; about as many tokens
};

// `index` and the shape make the same prompt every time; different indices share no prefix.
std::vector<uint32_t> PromptTokens(const StreamShape& shape, uint32_t index);
std::string PromptText(const StreamShape& shape, uint32_t index);

}  // namespace lockstep::bench
