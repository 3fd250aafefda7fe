#include "router/serving/prompts/chat_pieces.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

// Part of no spelling, because this byte never occurs in UTF-8.
constexpr char kNoText = '\xFF';

std::vector<std::string_view> TextsOf(const SpecialSpellings& spellings, std::string_view text) {
  std::vector<std::string_view> texts;
  for (const SpecialSpellings::Match& match : spellings.FindAll(text)) {
    texts.push_back(text.substr(match.begin, match.size));
  }
  return texts;
}

// Cuts `text` at `matches`, which become pieces of their own.
std::vector<ChatPiece> CutAt(std::string_view text,
                             const std::vector<SpecialSpellings::Match>& matches,
                             bool matches_are_foreign) {
  std::vector<ChatPiece> pieces;
  const auto add = [&pieces](std::string_view piece, bool foreign) {
    if (!piece.empty()) pieces.push_back({.text = std::string(piece), .foreign = foreign});
  };
  size_t done = 0;
  for (const SpecialSpellings::Match& match : matches) {
    add(text.substr(done, match.begin - done), !matches_are_foreign);
    add(text.substr(match.begin, match.size), matches_are_foreign);
    done = match.begin + match.size;
  }
  add(text.substr(done), !matches_are_foreign);
  return pieces;
}

}  // namespace

absl::StatusOr<std::vector<ChatPiece>> SeparateForeign(const SpecialSpellings& spellings,
                                                       std::string plain, std::string_view marked,
                                                       const TextMarks& marks) {
  absl::Status altered =
      InvalidArgument("chat.messages: the chat template alters text that spells special tokens");
  const absl::StatusOr<TextMarks::Plain> unmarked = marks.Unmark(marked);
  if (!unmarked.ok()) return altered;
  // Hides the client's characters, which are marked. Spellings in the rest are the template's.
  std::string own_text = unmarked->text;
  for (size_t i = 0; i < own_text.size(); ++i) {
    if (unmarked->is_marked[i]) own_text[i] = kNoText;
  }
  const std::vector<std::string_view> own = TextsOf(spellings, own_text);
  if (unmarked->text != plain) {
    // The difference does not matter if all special tokens come from the template.
    if (TextsOf(spellings, plain) != own) return altered;
    return std::vector<ChatPiece>{{.text = std::move(plain), .foreign = false}};
  }
  std::vector<SpecialSpellings::Match> foreign = spellings.FindAll(plain);
  std::erase_if(foreign, [&](const SpecialSpellings::Match& match) {
    const auto begin = unmarked->is_marked.begin() + static_cast<ptrdiff_t>(match.begin);
    return std::find(begin, begin + static_cast<ptrdiff_t>(match.size), true) ==
           begin + static_cast<ptrdiff_t>(match.size);
  });
  std::vector<ChatPiece> pieces = CutAt(plain, foreign, /*matches_are_foreign=*/true);
  std::vector<std::string_view> left;
  for (const ChatPiece& piece : pieces) {
    if (piece.foreign) continue;
    const std::vector<std::string_view> found = TextsOf(spellings, piece.text);
    left.insert(left.end(), found.begin(), found.end());
  }
  if (left == own) return pieces;
  // A spelling of the template overlaps client text, for example as part of a longer spelling.
  return CutAt(plain, spellings.FindAll(own_text), /*matches_are_foreign=*/false);
}

}  // namespace lockstep::router
