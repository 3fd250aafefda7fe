#include "router/text/unicode/combining_marks.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <array>
#include <cstdint>
#include <vector>

#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

// Sorting this many marks by insertion costs little.
constexpr size_t kMaxShortRun = 32;
// U+0300, the first combining mark, starts with this byte.
constexpr uint8_t kFirstMarkLeadByte = 0xCC;

// True for a character that canonical ordering moves. Its decomposition then consists of combining
// marks only.
bool IsMark(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0;
}

// Sorts the marks of one run, stably, by counting.
class MarkSorter {
 public:
  explicit MarkSorter(const icu::Normalizer2& nfd) : nfd_(nfd) {}

  void Add(char32_t c) {
    icu::UnicodeString decomposed;
    const auto mark = static_cast<UChar32>(c);
    if (!nfd_.getDecomposition(mark, decomposed)) return AddMark(mark);
    for (int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
      AddMark(decomposed.char32At(i));
    }
  }

  // Appends the marks in canonical order and forgets them.
  void AppendTo(std::string& out) {
    std::array<size_t, 256> begins{};  // of each class in the sorted marks
    size_t num_before = 0;
    for (size_t c = 0; c < begins.size(); ++c) {
      begins[c] = num_before;
      num_before += counts_[c];
    }
    sorted_.resize(marks_.size());
    for (const Mark& mark : marks_) sorted_[begins[mark.combining_class]++] = mark.code_point;
    for (const char32_t c : sorted_) out += EncodeUtf8(c);
    marks_.clear();
    counts_ = {};
  }

 private:
  struct Mark {
    char32_t code_point;
    uint8_t combining_class;
  };

  void AddMark(UChar32 mark) {
    const uint8_t combining_class = nfd_.getCombiningClass(mark);
    marks_.push_back({static_cast<char32_t>(mark), combining_class});
    ++counts_[combining_class];
  }

  const icu::Normalizer2& nfd_;
  std::vector<Mark> marks_;
  std::array<size_t, 256> counts_{};
  std::vector<char32_t> sorted_;
};

}  // namespace

absl::StatusOr<std::string_view> OrderLongMarkRuns(std::string_view text, std::string& storage) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(error);
  if (U_FAILURE(error)) return Internal("ICU has no NFD data: {}", u_errorName(error));
  MarkSorter sorter(*nfd);
  size_t done = 0;  // text before it is in `storage`; 0: nothing is yet
  storage.clear();
  for (size_t offset = 0; offset < text.size();) {
    if (static_cast<uint8_t>(text[offset]) < kFirstMarkLeadByte) {
      ++offset;
      continue;
    }
    const size_t begin = offset;
    size_t num_marks = 0;
    DecodedChar c = DecodeUtf8(text, offset);
    while (IsMark(c.code_point)) {
      ++num_marks;
      offset += c.length;
      if (offset == text.size()) break;
      c = DecodeUtf8(text, offset);
    }
    if (num_marks == 0) offset += c.length;
    if (num_marks <= kMaxShortRun) continue;
    storage += text.substr(done, begin - done);
    for (size_t at = begin; at < offset;) {
      const DecodedChar mark = DecodeUtf8(text, at);
      sorter.Add(mark.code_point);
      at += mark.length;
    }
    sorter.AppendTo(storage);
    done = offset;
  }
  if (done == 0) return text;
  storage += text.substr(done);
  return std::string_view(storage);
}

}  // namespace lockstep::router
