#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/serving/prompts/special_spellings.h"

namespace lockstep::router {

// Takes the spellings of special tokens out of foreign text before a chat template sees it, and
// puts them back afterwards, marked as plain text. Each is replaced by a marker that occurs in none
// of the texts and that templates pass on unharmed (ASCII letters and digits: it survives trim,
// split, replace and JSON escaping). One object serves one rendering.
class ForeignText {
 public:
  // `texts` are all texts of the client that the template may print, masked or not. `mask_borders`:
  // also hide what could become a spelling together with text that the template puts next to it.
  ForeignText(const SpecialSpellings& spellings, std::span<const std::string_view> texts,
              bool mask_borders);

  std::string Mask(std::string_view text);
  // A marker of no text: it shows a place, and Unmask drops it.
  std::string MarkPlace();

  struct Piece {
    std::string text;
    bool foreign = false;  // plain text, whatever it spells
  };
  // Splits a rendering at the markers. INVALID_ARGUMENT when the template damaged one.
  absl::StatusOr<std::vector<Piece>> Unmask(std::string_view rendered) const;

 private:
  void Hide(std::string_view text, std::string& masked);

  const SpecialSpellings& spellings_;
  const bool mask_borders_;
  std::string marker_;               // every marker starts with it
  std::vector<std::string> hidden_;  // by the number in the marker
};

}  // namespace lockstep::router
