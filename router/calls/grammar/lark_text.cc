#include "router/calls/grammar/lark_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

struct MarkerPart {
  std::string text;
  bool special = false;
  TokenId id = 0;
};

// The parts of a marker, in order. The tokenizer says which special tokens a prompt with this text
// has.
std::vector<MarkerPart> PartsOf(std::string_view marker, const Tokenizer& tokenizer) {
  std::vector<MarkerPart> parts;
  const auto add_text = [&](std::string_view text) {
    if (!text.empty()) parts.push_back({.text = std::string(text)});
  };
  const auto ids = tokenizer.Encode(
      marker, {.add_special_tokens = false, .parse_special_tokens = true, .cancellation = nullptr});
  if (ids.ok()) {
    for (const TokenId id : *ids) {
      if (!tokenizer.IsSpecial(id)) continue;
      const std::string_view spelling = tokenizer.TokenBytes(id);
      const size_t at = marker.find(spelling);
      if (spelling.empty() || at == std::string_view::npos) continue;
      add_text(marker.substr(0, at));
      parts.push_back({.text = std::string(spelling), .special = true, .id = id});
      marker.remove_prefix(at + spelling.size());
    }
  }
  add_text(marker);
  return parts;
}

std::string TokenById(TokenId id) { return fmt::format("<[{}]>", id); }

}  // namespace

std::string LarkString(std::string_view text) { return nlohmann::json(text).dump(); }

std::string LarkTextWithout(std::initializer_list<std::string_view> texts) {
  constexpr std::string_view kAnyText = "/(?s:.*)/";
  std::string choices;
  for (const std::string_view text : texts) {
    if (text.empty()) continue;
    choices += choices.empty() ? "" : " | ";
    choices += LarkString(text);
  }
  if (choices.empty()) return std::string(kAnyText);
  // A complement alone has bytes that are no text.
  return fmt::format("(~({0} ({1}) {0}) & {0})", kAnyText, choices);
}

LarkSequence& LarkSequence::Text(std::string_view text) {
  text_ += text;
  return *this;
}

LarkSequence& LarkSequence::Marker(std::string_view marker) {
  if (marker.empty()) return *this;
  for (const MarkerPart& part : PartsOf(marker, tokenizer_)) {
    if (part.special) {
      Rule(TokenById(part.id));
    } else {
      Text(part.text);
    }
  }
  return *this;
}

LarkSequence& LarkSequence::Rule(std::string_view expression) {
  EndText();
  if (!out_.empty()) out_ += ' ';
  out_ += expression;
  return *this;
}

void LarkSequence::EndText() {
  if (text_.empty()) return;
  if (!out_.empty()) out_ += ' ';
  out_ += LarkString(std::exchange(text_, {}));
}

std::string LarkSequence::Take() {
  EndText();
  return std::exchange(out_, {});
}

void LarkRules::Add(std::string_view name, std::string_view expression) {
  text_ += name;
  text_ += ": ";
  text_ += expression;
  text_ += '\n';
}

std::string LarkRules::AddTextUntil(std::string_view name, std::string_view body,
                                    std::string_view end, const Tokenizer& tokenizer) {
  std::string terminal(body);
  LarkSequence rest(tokenizer);
  rest.Rule(name);
  bool in_terminal = true;
  for (const MarkerPart& part : PartsOf(end, tokenizer)) {
    if (part.special) {
      in_terminal = false;
      rest.Rule(TokenById(part.id));
    } else if (in_terminal) {
      terminal += ' ' + LarkString(part.text);
    } else {
      rest.Text(part.text);
    }
  }
  Add(name, terminal);
  return rest.Take();
}

}  // namespace lockstep::router
