#pragma once

#include <string>

namespace lockstep {

// Empties the string and frees its memory. Assigning an empty string does not free it: libstdc++
// copies short strings into the existing memory.
inline void ReleaseMemory(std::string& text) { std::string().swap(text); }

}  // namespace lockstep
