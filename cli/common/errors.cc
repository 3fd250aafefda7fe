#include "cli/common/errors.h"

#include <absl/strings/str_split.h>

#include <cstdio>

#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

void PrintLines(std::string_view verb, const absl::Status& error) {
  const std::string message = WithoutControls(Message(error));
  for (const absl::string_view line : absl::StrSplit(message, '\n')) {
    std::fprintf(stderr, "lockstep %.*s: %.*s\n", static_cast<int>(verb.size()), verb.data(),
                 static_cast<int>(line.size()), line.data());
  }
}

}  // namespace

int PrintUsageError(std::string_view verb, const absl::Status& error) {
  PrintLines(verb, error);
  std::fprintf(stderr, "`lockstep help %.*s` says what it takes\n", static_cast<int>(verb.size()),
               verb.data());
  return 2;
}

int PrintFailure(std::string_view verb, const absl::Status& error) {
  std::fprintf(stderr, "lockstep %.*s: %s\n", static_cast<int>(verb.size()), verb.data(),
               WithoutControls(Message(error)).c_str());
  return 1;
}

}  // namespace lockstep::cli
