#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// What the output of a request must fit. The values are those of frames (engine/grammars.py).
enum class ConstraintKind : char {
  kJsonSchema = 'S',  // the text is a JSON schema
  kJsonObject = 'O',  // any JSON object; no text
  kRegex = 'R',       // the whole output matches
  kChoice = 'C',      // the text is a JSON list of strings; the output is one of them
  kGrammar = 'L',     // a Lark grammar, as llguidance reads it
};

struct Constraint {
  ConstraintKind kind = ConstraintKind::kJsonObject;
  std::string text;
  bool operator==(const Constraint&) const = default;
};

// Which tokens may follow. A pure function of the constraint, the engine's version, the vocabulary,
// the tokens that end the output, and the output so far.
struct TokenMask {
  std::vector<uint32_t> words;  // token t is bit t % 32 of word t / 32; [ceil(vocab_size / 32)]
  bool ends_only = false;       // all allowed tokens end the output

  bool Allows(uint32_t token) const { return (words[token / 32] >> token % 32 & 1) != 0; }
};

}  // namespace lockstep
