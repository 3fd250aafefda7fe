#include "router/text/detokenizer.h"

#include "router/text/unicode/utf8.h"

namespace lockstep::router {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

std::string IncrementalDetokenizer::Push(TokenId id) {
  std::string text;
  if (skip_special_tokens_ && tokenizer_.IsSpecial(id)) return text;
  AppendLossyUtf8(tokenizer_.TokenBytes(id), pending_bytes_, text);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text;
  FlushLossyUtf8(pending_bytes_, text);
  return text;
}

}  // namespace lockstep::router
