#include "router/serving/prompts/special_spellings.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {
namespace {

// Whether one of the sorted strings starts with `text` and is longer.
bool BeginsALonger(const std::vector<std::string>& sorted, std::string_view text) {
  const auto after = std::upper_bound(sorted.begin(), sorted.end(), text);
  return after != sorted.end() && after->starts_with(text);
}

}  // namespace

SpecialSpellings::SpecialSpellings(const Tokenizer& tokenizer)
    : SpecialSpellings(tokenizer.SpecialSpellings()) {}

SpecialSpellings::SpecialSpellings(std::vector<std::string> spellings)
    : spellings_(std::move(spellings)) {
  std::erase_if(spellings_, [](const std::string& spelling) { return spelling.empty(); });
  std::sort(spellings_.begin(), spellings_.end());
  for (const std::string& spelling : spellings_) {
    max_size_ = std::max(max_size_, spelling.size());
    reversed_.emplace_back(spelling.rbegin(), spelling.rend());
  }
  std::sort(reversed_.begin(), reversed_.end());
}

size_t SpecialSpellings::LongestAt(std::string_view text) const {
  // Narrows the range of spellings that match the text so far, byte by byte.
  auto first = spellings_.begin();
  auto last = spellings_.end();
  size_t longest = 0;
  for (size_t depth = 0; depth < text.size() && first != last; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_of = [depth](const std::string& spelling) {
      return depth < spelling.size() ? static_cast<unsigned char>(spelling[depth]) : -1;
    };
    first = std::partition_point(first, last, [&](const auto& s) { return byte_of(s) < byte; });
    last = std::partition_point(first, last, [&](const auto& s) { return byte_of(s) <= byte; });
    if (first != last && first->size() == depth + 1) longest = depth + 1;
  }
  return longest;
}

std::vector<SpecialSpellings::Match> SpecialSpellings::FindAll(std::string_view text) const {
  std::vector<Match> matches;
  for (size_t at = 0; at < text.size();) {
    const size_t size = LongestAt(text.substr(at));
    if (size > 0) matches.push_back({.begin = at, .size = size});
    at += std::max<size_t>(size, 1);
  }
  return matches;
}

size_t SpecialSpellings::OpenSuffixSize(std::string_view text) const {
  for (size_t size = std::min(text.size(), max_size_); size > 0; --size) {
    if (BeginsALonger(spellings_, text.substr(text.size() - size))) return size;
  }
  return 0;
}

size_t SpecialSpellings::OpenPrefixSize(std::string_view text) const {
  std::string prefix(text.substr(0, std::min(text.size(), max_size_)));
  std::reverse(prefix.begin(), prefix.end());
  for (std::string_view rest = prefix; !rest.empty(); rest.remove_prefix(1)) {
    if (BeginsALonger(reversed_, rest)) return rest.size();
  }
  return 0;
}

}  // namespace lockstep::router
