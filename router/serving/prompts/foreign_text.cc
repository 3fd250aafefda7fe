#include "router/serving/prompts/foreign_text.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kStem = "lockstephiddentext";
constexpr char kEnd = 'z';

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Reads the digits at the start of `text`, at most nine. Nothing if there are none.
std::optional<uint32_t> LeadingNumber(std::string_view text, size_t& num_digits) {
  constexpr size_t kMaxDigits = 9;
  uint32_t number = 0;
  const char* const begin = text.data();
  const auto [end, error] =
      std::from_chars(begin, begin + std::min(text.size(), kMaxDigits), number);
  num_digits = static_cast<size_t>(end - begin);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// Chooses a stem and number that occur in none of the texts, in upper or lower case.
std::string ChooseMarker(std::span<const std::string_view> texts) {
  absl::flat_hash_set<uint32_t> used;
  for (const std::string_view text : texts) {
    const std::string lower = Lowercase(text);
    for (size_t at = lower.find(kStem); at != std::string::npos; at = lower.find(kStem, at + 1)) {
      size_t num_digits = 0;
      const std::string_view rest = std::string_view(lower).substr(at + kStem.size());
      if (const auto number = LeadingNumber(rest, num_digits)) used.insert(*number);
    }
  }
  uint32_t number = 0;
  while (used.contains(number)) ++number;
  return fmt::format("{}{}x", kStem, number);
}

}  // namespace

ForeignText::ForeignText(const SpecialSpellings& spellings, std::span<const std::string_view> texts,
                         bool mask_borders)
    : spellings_(spellings), mask_borders_(mask_borders), marker_(ChooseMarker(texts)) {}

void ForeignText::Hide(std::string_view text, std::string& masked) {
  masked += fmt::format("{}{}{}", marker_, hidden_.size(), kEnd);
  hidden_.emplace_back(text);
}

std::string ForeignText::Mask(std::string_view text) {
  std::string masked;
  if (mask_borders_) {
    const size_t prefix = spellings_.OpenPrefixSize(text);
    if (prefix > 0) Hide(text.substr(0, prefix), masked);
    text.remove_prefix(prefix);
  }
  const size_t suffix = mask_borders_ ? spellings_.OpenSuffixSize(text) : 0;
  const std::string_view middle = text.substr(0, text.size() - suffix);
  size_t done = 0;
  for (const SpecialSpellings::Match& match : spellings_.FindAll(middle)) {
    masked += middle.substr(done, match.begin - done);
    Hide(middle.substr(match.begin, match.size), masked);
    done = match.begin + match.size;
  }
  masked += middle.substr(done);
  if (suffix > 0) Hide(text.substr(text.size() - suffix), masked);
  return masked;
}

std::string ForeignText::MarkPlace() {
  std::string mark;
  Hide({}, mark);
  return mark;
}

absl::StatusOr<std::vector<ForeignText::Piece>> ForeignText::Unmask(
    std::string_view rendered) const {
  const absl::Status damaged = absl::InvalidArgumentError(
      "chat.messages: the chat template alters text that spells special tokens");
  std::vector<Piece> pieces;
  const auto add = [&pieces](std::string_view text, bool foreign) {
    if (!text.empty()) pieces.push_back({.text = std::string(text), .foreign = foreign});
  };
  size_t done = 0;
  for (size_t at = rendered.find(marker_); at != std::string_view::npos;
       at = rendered.find(marker_, done)) {
    size_t num_digits = 0;
    const std::string_view rest = rendered.substr(at + marker_.size());
    const std::optional<uint32_t> index = LeadingNumber(rest, num_digits);
    if (!index.has_value() || *index >= hidden_.size() || num_digits >= rest.size() ||
        rest[num_digits] != kEnd) {
      return damaged;
    }
    add(rendered.substr(done, at - done), false);
    add(hidden_[*index], true);
    done = at + marker_.size() + num_digits + 1;
  }
  add(rendered.substr(done), false);
  for (const Piece& piece : pieces) {
    if (!piece.foreign && Lowercase(piece.text).find(marker_) != std::string::npos) return damaged;
  }
  return pieces;
}

}  // namespace lockstep::router
