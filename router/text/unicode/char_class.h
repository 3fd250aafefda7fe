#pragma once

#include <cstdint>
#include <span>

namespace lockstep::router {

// The character classes of byte-level pre-tokenizers.
enum class CharClass : uint8_t {
  kOther,
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s, the White_Space property
};

// Code points first .. last.
struct CharRange {
  char32_t first;
  char32_t last;
};

// Unicode 16.0, ascending. Fixed here and not taken from a library, so that ids are the same on
// every machine. Written by tests/golden/tokenizers/unicode_ranges.py.
extern const std::span<const CharRange> kLetterRanges;
extern const std::span<const CharRange> kNumberRanges;
extern const std::span<const CharRange> kSpaceRanges;

// The class of every code point. Cheap to copy.
class CharClasses {
 public:
  CharClasses();
  CharClass operator[](char32_t code_point) const {
    return code_point < kNumListed ? table_[code_point] : CharClass::kOther;
  }
  static constexpr char32_t kNumListed = 0x32400;  // all higher ones are kOther

 private:
  const CharClass* table_;  // shared, never freed
};

}  // namespace lockstep::router
