#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kv_cache/fp8_kv.h"

// What an FP8 KV cache makes of bf16 elements, in plain loops.
namespace lockstep::kernels {

// The scale of one token's key, or value, in one head.
inline uint32_t KvScaleOfHead(std::span<const BFloat16> head) {
  uint32_t magnitude = 0;
  for (const BFloat16 element : head) magnitude = std::max(magnitude, element.bits & 0x7FFFu);
  return KvScaleOf(magnitude);
}

// What is read after the head was appended as codes.
inline void RoundHeadToCodes(std::span<BFloat16> head) {
  const uint32_t scale = KvScaleOfHead(head);
  for (BFloat16& element : head) element = KvElement(KvCode(element, scale), scale);
}

// The same for heads one behind the other.
inline void RoundHeadsToCodes(std::span<BFloat16> heads, size_t head_dim) {
  for (size_t begin = 0; begin < heads.size(); begin += head_dim) {
    RoundHeadToCodes(heads.subspan(begin, head_dim));
  }
}

}  // namespace lockstep::kernels
