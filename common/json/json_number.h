#pragma once

#include <string_view>

namespace lockstep {

// A number as it is written in a valid JSON text, where ParseJson's result has it rounded: an
// integer of more than 64 bits. `path` is its place from the root: "seed", "ids[3]", "a[0].b".
// Empty if there is no such number.
std::string_view JsonNumberAt(std::string_view text, std::string_view path);

}  // namespace lockstep
