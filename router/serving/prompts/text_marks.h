#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "router/serving/prompts/special_spellings.h"

namespace lockstep::router {

// Marks characters of a client's texts, so that a rendering shows where they went: every spelling
// of a special token in the text, and borders that could become part of one next to other text.
//
// A mark is a lone surrogate, in three bytes. Valid UTF-8 has none. It stands for one character,
// so a marked text is as long as the plain one, and the renderer makes templates see the plain
// characters (templates/renderer/marked_text.py). One object serves one chat.
class TextMarks {
 public:
  explicit TextMarks(const SpecialSpellings& spellings) : spellings_(spellings) {}

  // `text` is valid UTF-8.
  std::string Mark(std::string_view text);
  bool has_marked() const { return !characters_.empty(); }
  // The characters that the marks stand for, for the renderer. INVALID_ARGUMENT if there are too
  // many different ones.
  absl::StatusOr<std::string> characters() const;

  struct Plain {
    std::string text;
    std::vector<bool> is_marked;  // of each byte
  };
  // Puts the characters back. INVALID_ARGUMENT for a mark that this object did not make.
  absl::StatusOr<Plain> Unmark(std::string_view marked) const;

 private:
  void AppendMarked(std::string_view text, std::string& out);
  size_t IndexOf(std::string_view character);

  const SpecialSpellings& spellings_;
  std::vector<std::string> characters_;  // by the number of the mark
  absl::flat_hash_map<std::string, size_t> indices_;
};

}  // namespace lockstep::router
