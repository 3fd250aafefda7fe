#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/model_files/tokenizer/added_token_list.h"
#include "router/text/unicode/char_class.h"

namespace lockstep::router {

// Finds added tokens in a text: the leftmost first, and the longest of several that start together.
// Immutable. Safe to use from any thread.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // The tokens must have different contents.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  struct Segment {
    std::string_view text;
    std::optional<TokenId> id;  // set: an added token; not set: plain text, not empty
  };
  // Cuts `text` into segments, in order. Without `match_special`, special tokens are plain text.
  std::vector<Segment> Split(std::string_view text, bool match_special) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // A node of the Aho-Corasick automaton over all tokens (Aho, Corasick 1975): the longest suffix
  // of the text so far that is the beginning of a token.
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    int32_t token = -1;        // index of the token that ends here; -1: none
    int32_t inner_token = -1;  // the longest shorter token that ends here; -1: none
    uint32_t fallback = 0;     // the node of the next shorter such suffix
    size_t depth = 0;          // length of this suffix in bytes
  };
  struct Match {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  void AddToNodes(size_t index);
  void SetFallbacks();
  uint32_t Child(uint32_t node, uint8_t byte) const;  // 0: none
  uint32_t Next(uint32_t node, uint8_t byte) const;
  std::optional<Match> Find(std::string_view text, size_t from) const;
  bool StandsAlone(std::string_view text, const Match& match) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> starts_token_{};
  bool has_plain_token_ = false;  // there is a token that is not special
  CharClasses classes_;
};

}  // namespace lockstep::router
