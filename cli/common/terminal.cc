#include "cli/common/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/common/environment.h"

namespace lockstep::cli {

bool WantsColours(int descriptor) {
  return isatty(descriptor) != 0 && !EnvironmentValue("NO_COLOR") &&
         EnvironmentValue("TERM").value_or("dumb") != "dumb";
}

std::string WithoutControls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    // U+0080 to U+009F are controls as well: C2 80 to C2 9F.
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      ++i;
    } else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
      out += text[i];
    }
  }
  return out;
}

std::string Paint::Wrap(std::string_view code, std::string_view text) const {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace lockstep::cli
