#include "router/text/token_offsets.h"

#include <unicode/normalizer2.h>

#include <algorithm>
#include <string>
#include <utility>

#include "router/text/unicode/nfc.h"
#include "router/text/unicode/utf8.h"
#include "router/text/unicode/white_space.h"

namespace lockstep::router {
namespace {

bool ContinuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

uint32_t NumCharacters(std::string_view text) {
  return static_cast<uint32_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !ContinuesCharacter(c); }));
}

// The longest common suffix of whole characters.
std::string_view CommonEnd(std::string_view a, std::string_view b) {
  size_t size = 0;
  while (size < std::min(a.size(), b.size()) && a[a.size() - size - 1] == b[b.size() - size - 1]) {
    ++size;
  }
  while (size > 0 && ContinuesCharacter(a[a.size() - size])) --size;
  return a.substr(a.size() - size);
}

// A part of the text, and the same part of the tokens' spelling.
struct Pair {
  size_t begin;        // in the spelling, in bytes
  uint32_t character;  // in the text
  bool is_same;        // the bytes of both are equal
};

// Pairs the text with the spelling of its tokens. Walks both in segments that NFC cannot join with
// their neighbours.
class Pairing {
 public:
  Pairing(std::string_view text, std::string_view spelling) : text_(text), spelling_(spelling) {
    UErrorCode error = U_ZERO_ERROR;
    nfc_ = icu::Normalizer2::getNFCInstance(error);
    if (U_FAILURE(error)) nfc_ = nullptr;
  }

  std::vector<Pair> Run() && {
    while (at_ < text_.size()) {
      const size_t end = SegmentEnd();
      Step(text_.substr(at_, end - at_));
      at_ = end;
    }
    pairs_.push_back({.begin = spelled_, .character = character_, .is_same = false});
    return std::move(pairs_);
  }

 private:
  size_t SegmentEnd() const {
    size_t end = at_ + DecodeUtf8(text_, at_).length;
    while (end < text_.size()) {
      const DecodedChar next = DecodeUtf8(text_, end);
      if (nfc_ == nullptr || nfc_->hasBoundaryBefore(static_cast<UChar32>(next.code_point))) break;
      end += next.length;
    }
    return end;
  }

  void Step(std::string_view segment) {
    std::string storage;
    std::string_view found = segment;
    if (!Rest().starts_with(segment)) {
      const absl::StatusOr<std::string_view> composed = NormalizeNfc(segment, storage);
      if (composed.ok()) found = *composed;
    }
    // A space that the tokenizer put before the text.
    if (!Rest().starts_with(found) && Rest().starts_with(' ') &&
        Rest().substr(1).starts_with(found)) {
      pairs_.push_back({.begin = spelled_++, .character = character_, .is_same = false});
    }
    const bool is_found = Rest().starts_with(found);
    // The tokenizer drops white space around some added tokens. Any other text is spelled in some
    // way, so as many bytes are taken for it.
    if (is_found || !TrimStart(segment).empty()) {
      const bool is_same = is_found && found == segment;
      pairs_.push_back({.begin = spelled_, .character = character_, .is_same = is_same});
      if (is_found && !is_same) {  // the end of the segment was not composed
        const std::string_view end = CommonEnd(segment, found);
        pairs_.push_back({.begin = spelled_ + found.size() - end.size(),
                          .character = character_ + NumCharacters(segment) - NumCharacters(end),
                          .is_same = true});
      }
      spelled_ = std::min(spelled_ + found.size(), spelling_.size());
    }
    character_ += NumCharacters(segment);
  }

  std::string_view Rest() const { return spelling_.substr(spelled_); }

  const std::string_view text_;
  const std::string_view spelling_;
  const icu::Normalizer2* nfc_ = nullptr;
  size_t at_ = 0;           // in the text
  size_t spelled_ = 0;      // in the spelling
  uint32_t character_ = 0;  // in the text
  std::vector<Pair> pairs_;
};

// The places of the tokens that begin at these bytes of the spelling. Both lists ascend.
std::vector<uint32_t> Places(std::span<const size_t> begins, std::string_view spelling,
                             std::span<const Pair> pairs) {
  std::vector<uint32_t> places;
  size_t current = 0;
  size_t at = pairs[0].begin;
  uint32_t place = pairs[0].character;
  for (const size_t begin : begins) {
    while (current + 1 < pairs.size() && pairs[current + 1].begin <= begin) {
      ++current;
      at = pairs[current].begin;
      place = pairs[current].character;
    }
    for (; pairs[current].is_same && at < begin; ++at) {
      if (at + 1 < spelling.size() && !ContinuesCharacter(spelling[at + 1])) ++place;
    }
    places.push_back(place);
  }
  return places;
}

// The same if the spelling equals the text.
std::vector<uint32_t> PlacesInText(std::span<const size_t> begins, std::string_view text) {
  std::vector<uint32_t> places;
  uint32_t num_begun = 0;  // characters that begin before the byte
  size_t at = 0;
  for (const size_t begin : begins) {
    for (; at < begin; ++at) num_begun += ContinuesCharacter(text[at]) ? 0 : 1;
    const bool is_inside = begin < text.size() && ContinuesCharacter(text[begin]);
    places.push_back(is_inside ? num_begun - 1 : num_begun);
  }
  return places;
}

}  // namespace

std::vector<uint32_t> TokenOffsets(const Tokenizer& tokenizer, std::string_view text,
                                   std::span<const TokenId> ids) {
  const auto surrounds = [](std::span<const TokenId> part, std::span<const TokenId> of) {
    return part.size() == of.size() && std::equal(part.begin(), part.end(), of.begin());
  };
  const std::span<const TokenId> prefix = tokenizer.prefix_ids();
  const std::span<const TokenId> suffix = tokenizer.suffix_ids();
  const bool is_surrounded = ids.size() >= prefix.size() + suffix.size() &&
                             surrounds(ids.first(prefix.size()), prefix) &&
                             surrounds(ids.last(suffix.size()), suffix);
  const size_t num_before = is_surrounded ? prefix.size() : 0;
  const size_t num_after = is_surrounded ? suffix.size() : 0;
  std::string spelling;
  std::vector<size_t> begins;
  for (const TokenId id : ids.subspan(num_before, ids.size() - num_before - num_after)) {
    begins.push_back(spelling.size());
    spelling += tokenizer.TokenBytes(id);
  }
  const std::vector<uint32_t> places =
      spelling == text ? PlacesInText(begins, text)
                       : Places(begins, spelling, Pairing(text, spelling).Run());
  std::vector<uint32_t> offsets(num_before, 0);
  offsets.insert(offsets.end(), places.begin(), places.end());
  offsets.resize(ids.size(), NumCharacters(text));
  return offsets;
}

}  // namespace lockstep::router
