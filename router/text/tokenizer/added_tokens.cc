#include "router/text/tokenizer/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

// \w of Unicode Technical Standard 18, annex C.
bool IsWordChar(char32_t code_point) {
  const UChar32 c = static_cast<UChar32>(code_point);
  constexpr uint32_t kMarksDigitsConnectors = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         (U_MASK(u_charType(c)) & kMarksDigitsConnectors) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  nodes_.emplace_back();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    has_plain_token_ = has_plain_token_ || !tokens_[i].special;
    starts_token_[static_cast<uint8_t>(tokens_[i].content.front())] = true;
    uint32_t node = 0;
    for (const char c : tokens_[i].content) {
      const uint8_t byte = static_cast<uint8_t>(c);
      uint32_t child = Child(node, byte);
      if (child == 0) {
        child = static_cast<uint32_t>(nodes_.size());
        nodes_[node].children.emplace_back(byte, child);
        nodes_.emplace_back();
      }
      node = child;
    }
    nodes_[node].token = static_cast<int32_t>(i);
  }
}

uint32_t AddedTokenMatcher::Child(uint32_t node, uint8_t byte) const {
  for (const auto& [label, child] : nodes_[node].children) {
    if (label == byte) return child;
  }
  return 0;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::Find(std::string_view text,
                                                                size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_token_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) break;
      if (nodes_[node].token >= 0) longest = Match{begin, i + 1, &tokens_[nodes_[node].token]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

bool AddedTokenMatcher::StandsAlone(std::string_view text, const Match& match) const {
  if (match.begin > 0) {
    const size_t before = PreviousCharOffset(text, match.begin);
    if (IsWordChar(DecodeUtf8(text, before).code_point)) return false;
  }
  return match.end == text.size() || !IsWordChar(DecodeUtf8(text, match.end).code_point);
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::Split(std::string_view text,
                                                                 bool match_special) const {
  std::vector<Segment> segments;
  size_t done = 0;  // everything before is in `segments`
  const bool nothing_to_find = tokens_.empty() || (!match_special && !has_plain_token_);
  size_t from = nothing_to_find ? text.size() : 0;
  const auto is_space = [&](size_t offset) {
    return classes_[DecodeUtf8(text, offset).code_point] == CharClass::kSpace;
  };
  while (const std::optional<Match> match = Find(text, from)) {
    from = match->end;
    const AddedToken& token = *match->token;
    if (token.special && !match_special) continue;
    if (token.single_word && !StandsAlone(text, *match)) continue;
    size_t begin = match->begin;
    size_t end = match->end;
    if (token.lstrip) {
      while (begin > done && is_space(PreviousCharOffset(text, begin))) {
        begin = PreviousCharOffset(text, begin);
      }
    }
    if (token.rstrip) {
      end = std::max(end, done);  // the token before may have taken this white space already
      while (end < text.size() && is_space(end)) end += DecodeUtf8(text, end).length;
    }
    if (done < begin) segments.push_back({text.substr(done, begin - done), std::nullopt});
    segments.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), std::nullopt});
  return segments;
}

}  // namespace lockstep::router
