#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// Larger chat templates are refused. Public ones stay below 20 KiB.
inline constexpr size_t kMaxTemplateBytes = 64 * 1024;

// The same Jinja template (jinja.palletsprojects.com/templates), with the white space control that
// Hugging Face's library chooses for chat templates carried out: trim_blocks, lstrip_blocks and the
// marks "-" and "+". The template library knows these rules in part only. Text becomes string
// constants, so that the library never trims it; lines keep their numbers.
//
// Only the borders of tags are looked for; whether a tag makes sense is left to the library.
// INVALID_ARGUMENT for a tag that does not end, with its line, and for a template that is too long.
absl::StatusOr<std::string> LayOutTemplate(std::string_view source);

}  // namespace lockstep::router
