#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string_view>

#include "router/text/tokenizer/pre_tokenizer.h"

namespace lockstep::router {

// A pattern of the definition's own, run by PCRE2. Text between matches is a piece as well.
// Accepted is the part of the syntax that Oniguruma (which Hugging Face's library uses) and PCRE2
// read the same way; anything else, and patterns that match the empty string, are INVALID_ARGUMENT.
// Unicode properties are those of the PCRE2 library.
absl::StatusOr<std::unique_ptr<const Splitter>> MakeRegexSplitter(std::string_view pattern);

}  // namespace lockstep::router
