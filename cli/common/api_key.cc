#include "cli/common/api_key.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "common/runtime/mapped_file.h"
#include "common/status.h"

namespace lockstep::cli {

absl::StatusOr<std::string> ReadApiKey(std::string text) {
  constexpr size_t kMaxKeyBytes = 4096;
  if (text.starts_with('@')) {
    LOCKSTEP_ASSIGN_OR_RETURN(text, ReadTextFile(text.substr(1), kMaxKeyBytes));
    absl::StripTrailingAsciiWhitespace(&text);
  }
  if (!std::all_of(text.begin(), text.end(),
                   [](unsigned char c) { return absl::ascii_isgraph(c); })) {
    return InvalidArgument("expected one word of printable ASCII");
  }
  return text;
}

}  // namespace lockstep::cli
