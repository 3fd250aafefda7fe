#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// Finds the earliest occurrence of any stop string in a growing text, across piece borders, and
// holds back text that may still become part of one. Owned and used by one thread at a time.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stop_strings, bool include_stop);

  struct Output {
    std::string text;               // safe to show now
    std::optional<size_t> matched;  // index into the stop strings; nothing follows after it
  };
  // Among matches that end at the same byte the one that starts first wins, then the lower index.
  Output Push(std::string_view piece);
  // What was held back, when the sequence ends without a match.
  std::string Flush();

  const std::string& stop_string(size_t index) const { return stop_strings_[index]; }

 private:
  std::vector<std::string> stop_strings_;
  bool include_stop_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace lockstep::router
