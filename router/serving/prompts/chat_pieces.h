#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "router/serving/prompts/special_spellings.h"
#include "router/serving/prompts/text_marks.h"

namespace lockstep::router {

// A stretch of a rendered chat.
struct ChatPiece {
  std::string text;
  bool foreign = false;  // client text: encode as plain text, even if it spells a special token
};

// Separates the template's special tokens from spellings in client text. `plain` is the rendering,
// `marked` the same chat rendered with marks. INVALID_ARGUMENT if the template treats marked text
// differently, because then the two cannot be separated.
absl::StatusOr<std::vector<ChatPiece>> SeparateForeign(const SpecialSpellings& spellings,
                                                       std::string plain, std::string_view marked,
                                                       const TextMarks& marks);

}  // namespace lockstep::router
