#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

// The two look-up tables of the tokenizer's inner loop. Open addressing, at most half full,
// unchanged after load.
namespace lockstep::router {

inline uint64_t MixBits(uint64_t value) {
  value *= 0x9E3779B97F4A7C15ull;
  return value ^ (value >> 32);
}

// Maps byte strings to ids.
class ByteTable {
 public:
  explicit ByteTable(size_t capacity = 0)
      : slots_(std::bit_ceil(2 * capacity + 2)), mask_(slots_.size() - 1) {}

  // `bytes` must not be in the table; at most `capacity` calls.
  void Insert(std::string_view bytes, TokenId id) {
    size_t i = Hash(bytes) & mask_;
    while (slots_[i].length != kFree) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(bytes.size()), id};
    arena_ += bytes;
  }

  std::optional<TokenId> Find(std::string_view bytes) const {
    for (size_t i = Hash(bytes) & mask_; slots_[i].length != kFree; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.length == bytes.size() &&
          std::memcmp(arena_.data() + slot.offset, bytes.data(), bytes.size()) == 0) {
        return slot.id;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    uint32_t offset = 0;
    uint32_t length = kFree;
    TokenId id = 0;
  };

  static uint64_t Hash(std::string_view bytes) {
    uint64_t hash = bytes.size();
    uint64_t word = 0;
    for (; bytes.size() > sizeof(word); bytes.remove_prefix(sizeof(word))) {
      std::memcpy(&word, bytes.data(), sizeof(word));
      hash = MixBits(hash ^ word);
    }
    word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    return MixBits(hash ^ word);
  }

  std::vector<Slot> slots_;
  size_t mask_;
  std::string arena_;
};

// Maps pairs of ids to the rank and the result of their merge.
class PairTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Value {
    uint32_t rank = kNoRank;
    TokenId merged = 0;
  };

  explicit PairTable(size_t capacity = 0)
      : slots_(std::bit_ceil(2 * capacity + 2)), mask_(slots_.size() - 1) {}

  // Replaces the value if the pair was set before. At most `capacity` calls.
  void Set(TokenId left, TokenId right, Value value) {
    const uint64_t key = Key(left, right);
    size_t i = MixBits(key) & mask_;
    while (slots_[i].value.rank != kNoRank && slots_[i].key != key) i = (i + 1) & mask_;
    slots_[i] = {key, value};
  }

  // The rank is kNoRank if the pair is absent.
  Value Find(TokenId left, TokenId right) const {
    const uint64_t key = Key(left, right);
    size_t i = MixBits(key) & mask_;
    while (slots_[i].value.rank != kNoRank && slots_[i].key != key) i = (i + 1) & mask_;
    return slots_[i].value;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Value value;
  };
  static uint64_t Key(TokenId left, TokenId right) { return uint64_t{left} << 32 | right; }

  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace lockstep::router
