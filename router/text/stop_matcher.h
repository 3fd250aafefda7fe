#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::router {

// Finds the earliest end of any stop string in a growing text, across borders of pieces. Holds back
// text that may still become part of a stop string. Pieces, stop strings and outputs are valid
// UTF-8. An empty stop string ends the text before its first byte. Owned and used by one thread at
// a time.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stop_strings, bool include_stop);

  struct Output {
    std::string text;               // safe to show now
    std::optional<size_t> matched;  // index into the stop strings; the text ends here
  };
  // If several stop strings end at the same byte, the longest wins, then the lowest index.
  // `may_match` false: a stop string that ends in this piece does not count. A stop string that
  // begins in it and ends in a later piece counts.
  Output Push(std::string_view piece, bool may_match = true);
  // Returns the text held back. Call when the sequence ends without a match.
  std::string Flush();

  const std::string& stop_string(size_t index) const { return stop_strings_[index]; }

 private:
  // A node of the Aho-Corasick automaton over all stop strings (Aho, Corasick 1975): the longest
  // suffix of the text so far that is the beginning of a stop string.
  struct Node {
    std::vector<std::pair<char, uint32_t>> children;
    uint32_t fallback = 0;           // the node of the next shorter such suffix
    size_t depth = 0;                // length of this suffix in bytes
    std::optional<size_t> complete;  // the longest stop string that ends here
  };
  void AddString(size_t index);
  void SetFallbacks();
  uint32_t Next(uint32_t node, char c) const;
  std::optional<uint32_t> Child(uint32_t node, char c) const;

  std::vector<std::string> stop_strings_;
  bool include_stop_;
  std::vector<Node> nodes_;
  uint32_t state_ = 0;
  std::string held_;  // the text not yet returned
  bool matched_ = false;
};

}  // namespace lockstep::router
