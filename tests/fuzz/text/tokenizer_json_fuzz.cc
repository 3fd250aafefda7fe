// tokenizer.json from anywhere: it loads or is refused, and what loads keeps its promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/text/detokenizer.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {
namespace {

void UseTokenizer(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool flag : {false, true}) {
    const auto ids =
        tokenizer.Encode(text, {.add_special_tokens = flag, .parse_special_tokens = flag});
    if (!ids.ok()) continue;
    IncrementalDetokenizer detokenizer(tokenizer, flag);
    std::string joined;
    for (const TokenId id : *ids) {
      LOCKSTEP_CHECK(id < tokenizer.vocab_size(), "id {} of {}", id, tokenizer.vocab_size());
      joined += detokenizer.Push(id);
    }
    joined += detokenizer.Flush();
    LOCKSTEP_CHECK(tokenizer.Decode(*ids, flag) == joined, "pieces differ from the whole text");
  }
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::router::Tokenizer;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::FromJson(json, "", "fuzz.json");
  if (!tokenizer.ok()) {
    LOCKSTEP_CHECK(lockstep::Message(tokenizer.status()).find("fuzz.json") != std::string::npos,
                   "an error must name the file: {}", lockstep::Message(tokenizer.status()));
    return 0;
  }
  lockstep::router::UseTokenizer(**tokenizer, "abc aab  12\u00bd\n\n 'ab e\u0301 <s> [a] ");
  lockstep::router::UseTokenizer(**tokenizer, json.substr(0, 512));
  return 0;
}
