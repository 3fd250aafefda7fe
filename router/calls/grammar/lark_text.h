#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "router/text/tokenizer/tokenizer.h"

// Pieces of Lark grammars as llguidance 1.9 reads them. Pure.
//
// llguidance tells rules (lower case, a context-free grammar) from terminals (upper case, regular
// expressions). A special token of the vocabulary is no text: it is written by its id.
namespace lockstep::router {

// "text", with quotes and escapes.
std::string LarkString(std::string_view text);

// An expression of terminals: valid UTF-8 without any of these texts, empty ones left out.
std::string LarkTextWithout(std::initializer_list<std::string_view> texts);

// One alternative of a rule: texts, markers and names of rules, in a row. Neighbouring texts become
// one string.
class LarkSequence {
 public:
  // `tokenizer` decides which parts of markers are special tokens. It must outlive the object.
  explicit LarkSequence(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  LarkSequence& Text(std::string_view text);
  // A text with special tokens in it. Empty: nothing.
  LarkSequence& Marker(std::string_view marker);
  // Any other expression: a rule's name, `name?`, `(a | b)*`.
  LarkSequence& Rule(std::string_view expression);

  std::string Take();

 private:
  void EndText();

  const Tokenizer& tokenizer_;
  std::string text_;  // not yet written
  std::string out_;
};

// The rules of a grammar, one a line.
class LarkRules {
 public:
  void Add(std::string_view name, std::string_view expression);
  // A text that `body` describes, and then the marker `end`, which `body` must exclude. Adds the
  // terminal `name` and returns the expression for both. They are one terminal as far as possible:
  // a terminal takes all text that fits, and would take the marker's spelling as well.
  std::string AddTextUntil(std::string_view name, std::string_view body, std::string_view end,
                           const Tokenizer& tokenizer);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace lockstep::router
