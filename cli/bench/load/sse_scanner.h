#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {

// The message of an error as OpenAI's API has them: {"error": {"message": "..."}}. Nothing if the
// text is none.
std::optional<std::string> OpenAiErrorMessage(std::string_view json);

// Finds in the body of a streamed OpenAI answer what a load wants to know, and parses nothing else.
// Fed in pieces of any size.
class SseScanner {
 public:
  // Returns how many events with output the bytes completed.
  uint32_t Feed(std::string_view bytes);

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

  std::string rest_;  // of a line that has not ended yet
  bool done_ = false;
  uint32_t prompt_tokens_ = 0;
  uint32_t output_tokens_ = 0;
  uint32_t cached_tokens_ = 0;
  std::string error_;
};

}  // namespace lockstep::cli
