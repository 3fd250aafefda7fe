#include "router/serving/prompts/text_marks.h"

#include <cctype>

#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

// U+DC00 to U+DFFF in UTF-8's scheme: 0xED, 0xB0 to 0xBF, 0x80 to 0xBF.
constexpr size_t kMaxMarks = 1024;
constexpr size_t kMarkBytes = 3;
constexpr unsigned char kMarkLead = 0xED;
constexpr unsigned char kSecondBase = 0xB0;
constexpr unsigned char kThirdBase = 0x80;

bool IsMarkAt(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]) == kMarkLead && at + kMarkBytes <= text.size() &&
         static_cast<unsigned char>(text[at + 1]) >= kSecondBase;
}

size_t MarkAt(std::string_view text, size_t at) {
  const size_t high = static_cast<unsigned char>(text[at + 1]) - kSecondBase;
  return high << 6 | (static_cast<unsigned char>(text[at + 2]) & 0x3F);
}

// Extends a suffix that begins inside a character to begin with that character.
size_t WithWholeStart(std::string_view text, size_t suffix_size) {
  while (suffix_size > 0 && suffix_size < text.size() &&
         (static_cast<unsigned char>(text[text.size() - suffix_size]) & 0xC0) == 0x80) {
    ++suffix_size;
  }
  return suffix_size;
}

// Extends a prefix that ends inside a character to end with that character.
size_t WithWholeEnd(std::string_view text, size_t prefix_size) {
  while (prefix_size > 0 && prefix_size < text.size() &&
         (static_cast<unsigned char>(text[prefix_size]) & 0xC0) == 0x80) {
    ++prefix_size;
  }
  return prefix_size;
}

}  // namespace

std::string TextMarks::Mark(std::string_view text) {
  std::string out;
  const size_t prefix = WithWholeEnd(text, spellings_.OpenPrefixSize(text));
  AppendMarked(text.substr(0, prefix), out);
  text.remove_prefix(prefix);
  const size_t suffix = WithWholeStart(text, spellings_.OpenSuffixSize(text));
  const std::string_view middle = text.substr(0, text.size() - suffix);
  size_t done = 0;
  for (const SpecialSpellings::Match& match : spellings_.FindAll(middle)) {
    out += middle.substr(done, match.begin - done);
    AppendMarked(middle.substr(match.begin, match.size), out);
    done = match.begin + match.size;
  }
  out += middle.substr(done);
  AppendMarked(text.substr(text.size() - suffix), out);
  return out;
}

void TextMarks::AppendMarked(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const std::string_view character = text.substr(0, NextUtf8Unit(text).length);
    const size_t index = IndexOf(character);
    // A filter of the template may change the letter's case, so the other case needs a mark too.
    if (character.size() == 1 && std::isalpha(static_cast<unsigned char>(character[0])) != 0) {
      IndexOf(std::string(1, static_cast<char>(character[0] ^ 0x20)));
    }
    out += static_cast<char>(kMarkLead);
    out += static_cast<char>(kSecondBase | (index >> 6 & 0x0F));
    out += static_cast<char>(kThirdBase | (index & 0x3F));
    text.remove_prefix(character.size());
  }
}

size_t TextMarks::IndexOf(std::string_view character) {
  const auto [it, inserted] = indices_.try_emplace(std::string(character), characters_.size());
  if (inserted) characters_.emplace_back(character);
  return it->second;
}

absl::StatusOr<std::string> TextMarks::characters() const {
  if (characters_.size() > kMaxMarks) {
    return InvalidArgument(
        "chat: the special tokens that its texts spell have {} different characters, expected at "
        "most {}",
        characters_.size(), kMaxMarks);
  }
  std::string all;
  for (const std::string& character : characters_) all += character;
  return all;
}

absl::StatusOr<TextMarks::Plain> TextMarks::Unmark(std::string_view marked) const {
  Plain plain;
  plain.text.reserve(marked.size());
  plain.is_marked.reserve(marked.size());
  for (size_t at = 0; at < marked.size();) {
    if (!IsMarkAt(marked, at)) {
      plain.text += marked[at++];
      plain.is_marked.push_back(false);
      continue;
    }
    const size_t mark = MarkAt(marked, at);
    if (mark >= characters_.size()) return InvalidArgument("not a mark of this chat");
    plain.text += characters_[mark];
    plain.is_marked.insert(plain.is_marked.end(), characters_[mark].size(), true);
    at += kMarkBytes;
  }
  return plain;
}

}  // namespace lockstep::router
