#include <cstring>

#include "kernels/kv_cache/fp8_kv.h"
#include "kernels/norm/row_norm.h"
#include "kernels/rope/rotary_append_isa.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

struct Rotation {
  const float* cos;  // [head_dim / 2]
  const float* sin;
};

// Norms (if `weight` is set), rotates and rounds one head.
void RotateHead(const RotaryAppendParams& params, const Rotation& rotation, const float* weight,
                const BFloat16* input, BFloat16* output) {
  const int64_t head_dim = params.kv.head_dim;
  const int64_t half = head_dim / 2;
  alignas(64) float values[kMaxRotaryHeadDim];
  if (weight != nullptr) {
    const float inverse_rms = InverseRms(input, head_dim, params.norm_eps);
    for (int64_t i = 0; i < head_dim; ++i) {
      values[i] = NormedValue(input[i], inverse_rms, weight[i]);
    }
  } else {
    for (int64_t i = 0; i < head_dim; ++i) values[i] = ToFloat(input[i]);
  }
  for (int64_t i = 0; i < half; ++i) {
    const float first = values[i];
    const float second = values[i + half];
    output[i] = ToBFloat16(first * rotation.cos[i] - second * rotation.sin[i]);
    output[i + half] = ToBFloat16(second * rotation.cos[i] + first * rotation.sin[i]);
  }
}

// A token's place in the pool.
struct KvPlace {
  const PagedKv& kv;
  int64_t block;
  int64_t token_in_block;
};

// Stores the key and the value of one KV head, [head_dim] each.
void AppendElements(const KvPlace& place, int64_t head, const BFloat16* key,
                    const BFloat16* value) {
  const int64_t head_dim = place.kv.head_dim;
  BFloat16* keys = KeyBlock(place.kv, place.block, head);
  for (int64_t dim = 0; dim < head_dim; dim += 2) {
    std::memcpy(keys + KeyOffset(place.token_in_block, dim), key + dim, 2 * sizeof(BFloat16));
  }
  std::memcpy(
      ValueBlock(place.kv, place.block, head) + ValueOffset(place.token_in_block, 0, head_dim),
      value, static_cast<size_t>(head_dim) * sizeof(BFloat16));
}

// Returns the scale of the codes.
uint8_t EncodeHead(const BFloat16* elements, int64_t head_dim, uint8_t* codes) {
  uint16_t max_magnitude = 0;
  for (int64_t i = 0; i < head_dim; ++i) {
    const auto magnitude = static_cast<uint16_t>(elements[i].bits & 0x7FFF);
    max_magnitude = magnitude > max_magnitude ? magnitude : max_magnitude;
  }
  const uint32_t scale = KvScaleOf(max_magnitude);
  for (int64_t i = 0; i < head_dim; ++i) codes[i] = KvCode(elements[i], scale);
  return static_cast<uint8_t>(scale);
}

// The same as codes.
void AppendCodes(const KvPlace& place, int64_t head, const BFloat16* key, const BFloat16* value) {
  const PagedKv& kv = place.kv;
  const int64_t head_dim = kv.head_dim;
  uint8_t codes[kMaxRotaryHeadDim];
  KeyScales(kv, place.block, head)[place.token_in_block] = EncodeHead(key, head_dim, codes);
  uint8_t* keys = KeyCodes(kv, place.block, head);
  for (int64_t dim = 0; dim < head_dim; dim += 2) {
    std::memcpy(keys + KeyOffset(place.token_in_block, dim), codes + dim, 2);
  }
  ValueScales(kv, place.block, head)[place.token_in_block] = EncodeHead(
      value, head_dim,
      ValueCodes(kv, place.block, head) + ValueOffset(place.token_in_block, 0, head_dim));
}

}  // namespace

void RotaryAppendTokens(const RotaryAppendParams& params, int64_t token_begin, int64_t token_end) {
  const PagedKv& kv = params.kv;
  const int64_t head_dim = kv.head_dim;
  const int64_t token_stride = (params.num_heads + 2 * kv.num_kv_heads) * head_dim;
  for (int64_t token = token_begin; token < token_end; ++token) {
    const int64_t rotation_offset = static_cast<int64_t>(params.positions[token]) * (head_dim / 2);
    const Rotation rotation = {params.cos + rotation_offset, params.sin + rotation_offset};
    BFloat16* q = params.qkv + token * token_stride;
    for (int64_t head = 0; head < params.num_heads; ++head) {
      BFloat16* head_values = q + head * head_dim;
      RotateHead(params, rotation, params.q_norm_weight, head_values, head_values);
    }
    const BFloat16* k = q + params.num_heads * head_dim;
    const BFloat16* v = k + kv.num_kv_heads * head_dim;
    const KvPlace place = {kv, static_cast<int64_t>(params.kv_slots[token] / kKvBlockTokens),
                           static_cast<int64_t>(params.kv_slots[token] % kKvBlockTokens)};
    for (int64_t head = 0; head < kv.num_kv_heads; ++head) {
      BFloat16 rotated[kMaxRotaryHeadDim];
      RotateHead(params, rotation, params.k_norm_weight, k + head * head_dim, rotated);
      if (kv.type == KvType::kFp8) {
        AppendCodes(place, head, rotated, v + head * head_dim);
      } else {
        AppendElements(place, head, rotated, v + head * head_dim);
      }
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
