#pragma once

#include <string>
#include <string_view>

#include "common/ids.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// Text of one sequence, token by token. Never emits half a UTF-8 character: incomplete bytes wait
// for the next token, and bytes that cannot become valid any more become U+FFFD. All pieces joined
// equal Tokenizer::Decode of all ids. Owned and used by one thread at a time.
class IncrementalDetokenizer {
 public:
  // `tokenizer` must outlive the object.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // Returns the text that is complete with this token; may be empty.
  std::string Push(TokenId id);
  // Returns the waiting bytes as U+FFFD. Call when the sequence ends.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  std::string pending_bytes_;
};

}  // namespace lockstep::router
