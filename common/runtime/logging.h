#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

namespace lockstep {

// Sends spdlog's default logger to stderr, one line per record: UTC time, level, thread id,
// message. Line breaks and other control characters inside a message are escaped, so that nobody
// can forge a record. Records name ids, counts and reasons; never prompts, generated text or
// secrets.
//
// `level` is one of trace, debug, info, warn, error, off; anything else is INVALID_ARGUMENT listing
// them. Call it once, first thing in main; log with <spdlog/spdlog.h>.
absl::Status InitLogging(std::string_view level);

// `text` with control characters as \n, \t, \r or \xNN. For everything else that prints foreign
// text.
std::string EscapeControlCharacters(std::string_view text);

}  // namespace lockstep
