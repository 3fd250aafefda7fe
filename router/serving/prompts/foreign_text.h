#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/serving/prompts/special_spellings.h"

namespace lockstep::router {

// Hides the spellings of special tokens in foreign text from a chat template, and puts them back
// after the rendering, marked as plain text. Each spelling is replaced by a marker that occurs in
// none of the texts. Templates do not change markers: they are ASCII letters and digits, which
// survive trim, split, replace and JSON escaping. One object serves one rendering.
class ForeignText {
 public:
  // `texts`: all texts of the client that the template may print, masked or not. `mask_borders`:
  // also hide the start or end of a text if it could form a spelling with text that the template
  // puts next to it.
  ForeignText(const SpecialSpellings& spellings, std::span<const std::string_view> texts,
              bool mask_borders);

  std::string Mask(std::string_view text);
  // A marker without text. It marks a place, and Unmask drops it.
  std::string MarkPlace();

  struct Piece {
    std::string text;
    bool foreign = false;  // encode as plain text, whatever it spells
  };
  // Splits a rendering at the markers. INVALID_ARGUMENT if the template damaged a marker.
  absl::StatusOr<std::vector<Piece>> Unmask(std::string_view rendered) const;

 private:
  void Hide(std::string_view text, std::string& masked);

  const SpecialSpellings& spellings_;
  const bool mask_borders_;
  std::string marker_;               // every marker starts with it
  std::vector<std::string> hidden_;  // by the number in the marker
};

}  // namespace lockstep::router
