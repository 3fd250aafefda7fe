#pragma once

#include <cstdint>

namespace lockstep {

// Raises the soft limit on open descriptors to the hard one, at most 2^20. Call it first thing in
// main. Returns the soft limit that holds afterwards.
uint64_t RaiseDescriptorLimit();

}  // namespace lockstep
