#pragma once

#include <cstdint>

namespace lockstep::kernels {

// How the elements of keys and values are stored.
enum class KvType : uint8_t {
  kBFloat16,
  kFp8,  // E4M3 codes and scales (fp8_kv.h)
};

// Bytes of an element, without its share of a scale.
[[gnu::always_inline]] constexpr int64_t KvElementBytes(KvType type) {
  return type == KvType::kFp8 ? 1 : 2;
}

}  // namespace lockstep::kernels
