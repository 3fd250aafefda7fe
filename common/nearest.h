#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

// The number of letters to add, remove or replace to turn one word into the other (Levenshtein's
// distance).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate with the least distance. Up to two letters may differ, or a third of a long
// candidate's letters, but never more than half. None if no candidate is close enough.
std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> candidates);

}  // namespace lockstep
