#pragma once

#include <cstdint>

namespace lockstep {

// Plain integers with names. They index dense arrays on hot paths and are sent unchanged.
using TokenId = uint32_t;
using BlockId = uint32_t;     // a KV block of one worker, 0 .. num_blocks - 1
using SlotId = uint32_t;      // a worker-local row, chosen by the router, 0 .. max_slots - 1
using StepId = uint64_t;      // 1, 2, 3, ... within an epoch
using RequestKey = uint64_t;  // router-internal number of a request, never reused

// True for characters allowed in names of requests, tenants and sessions: [A-Za-z0-9._:-].
constexpr bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == ':' || c == '-';
}

}  // namespace lockstep
