#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// How a tokenizer spells its special tokens ("<|im_end|>"). Finds these spellings in foreign text.
// Immutable.
class SpecialSpellings {
 public:
  explicit SpecialSpellings(const Tokenizer& tokenizer);
  explicit SpecialSpellings(std::vector<std::string> spellings);

  struct Match {
    size_t begin = 0, size = 0;
  };
  // Occurrences from left to right, the longest at each place, without overlap.
  std::vector<Match> FindAll(std::string_view text) const;
  // False: the text contains no spelling, and none could form at its borders.
  bool MayBeIn(std::string_view text) const;
  // The size of the longest end of `text` that begins a spelling, and of the longest start of
  // `text` that ends a spelling. Next to other text they could become a special token. 0 if there
  // is none.
  size_t OpenSuffixSize(std::string_view text) const;
  size_t OpenPrefixSize(std::string_view text) const;

 private:
  // The size of the longest spelling at the start of `text`; 0 if there is none.
  size_t LongestAt(std::string_view text) const;

  std::vector<std::string> spellings_;  // sorted
  std::vector<std::string> reversed_;   // each from its end to its start; sorted
  size_t max_size_ = 0;
  // First and last bytes of spellings. Few texts have one of them at a border.
  std::bitset<256> first_bytes_;
  std::bitset<256> last_bytes_;
};

}  // namespace lockstep::router
