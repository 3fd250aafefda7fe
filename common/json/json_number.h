#pragma once

#include <string_view>

namespace lockstep {

// The original text of a number in valid JSON. Needed for integers of more than 64 bits, which
// ParseJson rounds. `path` is the number's place from the root: "seed", "ids[3]", "a[0].b". Empty
// if there is no such number.
std::string_view JsonNumberAt(std::string_view text, std::string_view path);

}  // namespace lockstep
