#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {

// The message of an error in the form of OpenAI's API: {"error": {"message": "..."}}. Nothing for
// any other text.
std::optional<std::string> OpenAiErrorMessage(std::string_view json);

// Finds the few values that a load needs in the body of a streamed OpenAI answer, and parses
// nothing else. Accepts pieces of any size. Holds at most one line of kMaxLineBytes.
class SseScanner {
 public:
  // Servers send a few hundred bytes a line; some thousands with log-probabilities.
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;

  // Returns how many events with output the bytes completed. Ignores bytes once `failed`.
  uint32_t Feed(std::string_view bytes);

  // A line was too long. `error` says so.
  bool failed() const { return failed_; }

  bool done() const { return done_; }  // "data: [DONE]" came
  // The server's counts, once it has sent them; 0 before.
  uint32_t prompt_tokens() const { return prompt_tokens_; }
  uint32_t output_tokens() const { return output_tokens_; }
  uint32_t cached_tokens() const { return cached_tokens_; }
  // The message of an error event; empty: there was none.
  const std::string& error() const { return error_; }

 private:
  // True if the event has output.
  bool TakeLine(std::string_view line);
  // The line is too long. Returns `num_pieces`.
  uint32_t Fail(uint32_t num_pieces);

  std::string rest_;  // of a line that has not ended yet
  bool done_ = false;
  bool failed_ = false;
  uint32_t prompt_tokens_ = 0;
  uint32_t output_tokens_ = 0;
  uint32_t cached_tokens_ = 0;
  std::string error_;
};

}  // namespace lockstep::cli
