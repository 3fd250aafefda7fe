#include "router/serving/prompts/special_spellings.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {
namespace {

size_t Index(char byte) { return static_cast<unsigned char>(byte); }

// True if one of the sorted texts begins with `start` and is longer.
bool OneGoesOn(const std::vector<std::string>& sorted, std::string_view start) {
  auto it = std::lower_bound(sorted.begin(), sorted.end(), start);
  if (it != sorted.end() && *it == start) ++it;
  return it != sorted.end() && it->starts_with(start);
}

}  // namespace

SpecialSpellings::SpecialSpellings(const Tokenizer& tokenizer)
    : SpecialSpellings(tokenizer.SpecialSpellings()) {}

SpecialSpellings::SpecialSpellings(std::vector<std::string> spellings)
    : spellings_(std::move(spellings)) {
  std::erase_if(spellings_, [](const std::string& spelling) { return spelling.empty(); });
  std::sort(spellings_.begin(), spellings_.end());
  spellings_.erase(std::unique(spellings_.begin(), spellings_.end()), spellings_.end());
  for (const std::string& spelling : spellings_) {
    max_size_ = std::max(max_size_, spelling.size());
    reversed_.emplace_back(spelling.rbegin(), spelling.rend());
    first_bytes_.set(Index(spelling.front()));
    last_bytes_.set(Index(spelling.back()));
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
    const size_t size = first_bytes_.test(Index(text[at])) ? LongestAt(text.substr(at)) : 0;
    if (size > 0) matches.push_back({.begin = at, .size = size});
    at += std::max<size_t>(size, 1);
  }
  return matches;
}

bool SpecialSpellings::MayBeIn(std::string_view text) const {
  return std::any_of(text.begin(), text.end(), [this](char byte) {
    return first_bytes_.test(Index(byte)) || last_bytes_.test(Index(byte));
  });
}

size_t SpecialSpellings::OpenSuffixSize(std::string_view text) const {
  for (size_t size = std::min(text.size(), max_size_); size > 0; --size) {
    const std::string_view suffix = text.substr(text.size() - size);
    if (first_bytes_.test(Index(suffix.front())) && OneGoesOn(spellings_, suffix)) return size;
  }
  return 0;
}

size_t SpecialSpellings::OpenPrefixSize(std::string_view text) const {
  for (size_t size = std::min(text.size(), max_size_); size > 0; --size) {
    const std::string_view prefix = text.substr(0, size);
    if (!last_bytes_.test(Index(prefix.back()))) continue;
    if (OneGoesOn(reversed_, std::string(prefix.rbegin(), prefix.rend()))) return size;
  }
  return 0;
}

}  // namespace lockstep::router
