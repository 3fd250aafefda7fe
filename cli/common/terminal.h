#pragma once

#include <string>
#include <string_view>

#include "common/shown_text.h"

namespace lockstep::cli {

// True where colours are of use: the descriptor is a terminal that can show them, and the user did
// not set NO_COLOR (https://no-color.org).
bool WantsColours(int descriptor);

// Marks text for a terminal, or leaves it as it is.
struct Paint {
  bool on = false;

  std::string Bold(std::string_view text) const { return Wrap("1", text); }
  std::string Dim(std::string_view text) const { return Wrap("2", text); }
  std::string Red(std::string_view text) const { return Wrap("31", text); }

 private:
  std::string Wrap(std::string_view code, std::string_view text) const;
};

}  // namespace lockstep::cli
