#include "cli/serve/processes/console.h"

#include <unistd.h>

#include <cstdio>

namespace lockstep::cli {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[2K";

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

Console::Console()
    : is_terminal_(isatty(STDOUT_FILENO) != 0), paint_{.on = WantsColours(STDOUT_FILENO)} {}

void Console::Line(std::string_view text) {
  if (shows_progress_) Print(kEraseLine);
  shows_progress_ = false;
  Print(text);
  Print("\n");
  std::fflush(stdout);
}

void Console::Progress(std::string_view text) {
  if (text == progress_) return;
  progress_ = std::string(text);
  if (!is_terminal_) return Line(text);
  Print(kEraseLine);
  Print(text);
  std::fflush(stdout);
  shows_progress_ = true;
}

}  // namespace lockstep::cli
