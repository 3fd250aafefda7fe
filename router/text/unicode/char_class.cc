#include "router/text/unicode/char_class.h"

#include <array>

#include "common/check.h"

namespace lockstep::router {
namespace {

using Table = std::array<CharClass, CharClasses::kNumListed>;

void Fill(std::span<const CharRange> ranges, CharClass value, Table& table) {
  for (const CharRange& range : ranges) {
    LOCKSTEP_CHECK(range.first <= range.last && range.last < table.size(),
                   "range U+{:04X}..U+{:04X} lies outside the table",
                   static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last));
    for (char32_t code_point = range.first; code_point <= range.last; ++code_point) {
      table[code_point] = value;
    }
  }
}

Table MakeTable() {
  Table table{};
  Fill(kLetterRanges, CharClass::kLetter, table);
  Fill(kNumberRanges, CharClass::kNumber, table);
  Fill(kSpaceRanges, CharClass::kSpace, table);
  return table;
}

}  // namespace

CharClasses::CharClasses() {
  static const Table table = MakeTable();
  table_ = table.data();
}

}  // namespace lockstep::router
