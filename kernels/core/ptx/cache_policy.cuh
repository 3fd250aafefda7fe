#pragma once

#include <cstdint>

// PTX ISA 9.0, "createpolicy".
namespace lockstep::kernels::ptx {

// How long the second-level cache should keep what is read, as createpolicy encodes it.
enum class CachePolicy : uint64_t {
  kEvictFirst = 0x12F0000000000000,
  kEvictNormal = 0x1000000000000000,
  kEvictLast = 0x14F0000000000000,
};

}  // namespace lockstep::kernels::ptx
