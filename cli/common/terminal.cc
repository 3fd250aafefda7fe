#include "cli/common/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/common/environment.h"

namespace lockstep::cli {

bool WantsColours(int descriptor) {
  return isatty(descriptor) != 0 && !EnvironmentValue("NO_COLOR") &&
         EnvironmentValue("TERM").value_or("dumb") != "dumb";
}

std::string Paint::Wrap(std::string_view code, std::string_view text) const {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace lockstep::cli
