#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string_view>

#include "router/text/tokenizer/pre_tokenizer.h"

namespace lockstep::router {

// A pattern from the model's own definition, run by PCRE2. Text between matches is a piece too.
// Accepts the part of the syntax that Oniguruma (used by Hugging Face's library) and PCRE2 read
// alike. Everything else, and patterns that match the empty string, are INVALID_ARGUMENT. Unicode
// properties are PCRE2's.
absl::StatusOr<std::unique_ptr<const Splitter>> MakeRegexSplitter(std::string_view pattern);

}  // namespace lockstep::router
