#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "common/flag.h"
#include "common/shown_text.h"

namespace lockstep {

// What a server is told about its log (InitLogging).
struct LogConfig {
  std::string level = "info";
  std::string format = "text";
};
// The flags --log-level and --log-format.
FlagGroup LogFlags(LogConfig& config);

// Sends spdlog's default logger to stderr, one line per record: UTC time, level, thread id,
// message. Line breaks and other control characters in a message are escaped, so that a message
// cannot forge a record. With the format "json" each line is an object with the members time,
// level, thread and message; bytes that are not UTF-8 become U+FFFD. Records name ids, counts and
// reasons; never prompts, generated text or secrets.
//
// `level` is one of trace, debug, info, warn, error, off. `format` is text or json.
// INVALID_ARGUMENT lists the allowed values. Call this once, at the beginning of main. Log with
// <spdlog/spdlog.h>.
absl::Status InitLogging(std::string_view level, std::string_view format = "text");

}  // namespace lockstep
