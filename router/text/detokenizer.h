#pragma once

#include <string>
#include <string_view>

#include "common/ids.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// Text of one sequence, token by token. Never emits half a UTF-8 character: incomplete bytes wait
// for the next token; bytes that can no longer become valid come out as U+FFFD. Joining all pieces
// gives what Tokenizer::Decode gives for all ids. Owned and used by one thread at a time.
class IncrementalDetokenizer {
 public:
  // `tokenizer` must outlive the object.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // The text that became complete with this token; may be empty.
  std::string Push(TokenId id);
  // What is still waiting, as U+FFFD, when the sequence ends.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  std::string pending_bytes_;
};

}  // namespace lockstep::router
