#pragma once

#include <string>

namespace lockstep {

// Empties the string and frees what it held. Assigning an empty string does not: libstdc++ copies
// a short string into the memory that is there, and keeps that.
inline void ReleaseMemory(std::string& text) { std::string().swap(text); }

}  // namespace lockstep
