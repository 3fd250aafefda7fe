#include "router/text/tokenizer/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <deque>
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
    AddToNodes(i);
  }
  SetFallbacks();
}

void AddedTokenMatcher::AddToNodes(size_t index) {
  uint32_t node = 0;
  for (const char c : tokens_[index].content) {
    const uint8_t byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, child);
      nodes_.emplace_back();
      nodes_[child].depth = nodes_[node].depth + 1;
    }
    node = child;
  }
  nodes_[node].token = static_cast<int32_t>(index);
}

// Breadth first, so that shorter suffixes are ready.
void AddedTokenMatcher::SetFallbacks() {
  std::deque<uint32_t> queue = {0};
  while (!queue.empty()) {
    const uint32_t node = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : nodes_[node].children) {
      if (node != 0) nodes_[child].fallback = Next(nodes_[node].fallback, byte);
      const Node& shorter = nodes_[nodes_[child].fallback];
      nodes_[child].inner_token = shorter.token >= 0 ? shorter.token : shorter.inner_token;
      queue.push_back(child);
    }
  }
}

uint32_t AddedTokenMatcher::Child(uint32_t node, uint8_t byte) const {
  for (const auto& [label, child] : nodes_[node].children) {
    if (label == byte) return child;
  }
  return 0;
}

uint32_t AddedTokenMatcher::Next(uint32_t node, uint8_t byte) const {
  for (;;) {
    if (const uint32_t child = Child(node, byte); child != 0) return child;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::Find(std::string_view text,
                                                                size_t from) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = from; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if (node == 0 && !starts_token_[byte] && !best) continue;
    node = Next(node, byte);
    // No match that is still open begins before the best one.
    if (best && i + 1 - nodes_[node].depth > best->begin) return best;
    const int32_t index = nodes_[node].token >= 0 ? nodes_[node].token : nodes_[node].inner_token;
    if (index < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    const size_t begin = i + 1 - token.content.size();
    if (!best || begin <= best->begin) best = Match{begin, i + 1, &token};
  }
  return best;
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
      end = std::max(end, done);  // the previous token may have taken this white space
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
