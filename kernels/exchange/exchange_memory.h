#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/exchange/exchange.h"

// The memory of a rank that the other ranks write to, besides its outputs.
//
// Calls are numbered by tags, which ascend by one. A call uses one of two halves, by the lowest bit
// of its tag. A rank may write to the half of call e again in call e + 2. This call begins once the
// rank's call e + 1 has ended. There it received something from every peer, which the peer sent
// after its own call e had ended. So all readers of call e are done by then.
namespace lockstep::kernels {

// Of the rank itself, at the beginning of its memory.
struct ExchangeHeader {
  uint32_t last_tag;   // of the latest call
  uint32_t num_ended;  // blocks of the call under way that have ended
};

// What a rank tells a peer that will store to its output. The tag is written last.
struct alignas(32) ExchangePost {
  uint64_t output;  // address
  uint64_t shape;   // number of rows << 32 | row_bytes
  uint64_t tag;
  uint64_t unused;
};

// Blocks of a call at most. It does not depend on the device, because block b of a rank waits for
// block b of every other rank. All blocks of a rank must run at once: two on each multiprocessor.
inline constexpr int kMaxExchangeBlocks = 2 * kMinExchangeMultiprocessors;

struct ExchangeMemory {
  // After this tag tags begin again at 1. Tag 0 is the tag of memory that was never written. The
  // last call with each half before that clears the half once it has read it, when no other rank
  // writes to it. Even, so that halves take turns over the border as well.
  static constexpr uint32_t kLastTag = 0xFFFF0000;
  static constexpr int64_t kHeaderBytes = 256;
  static constexpr int64_t kPostsBytes = kMaxExchangeRanks * sizeof(ExchangePost);
  static constexpr int64_t kArrivalsBytes =
      int64_t{kMaxExchangeRanks} * kMaxExchangeBlocks * sizeof(uint64_t);

  constexpr ExchangeMemory(int degree, int64_t max_push_bytes)
      : peer_bytes(2 * max_push_bytes),
        second_words(max_push_bytes / static_cast<int64_t>(sizeof(uint64_t))),
        half_bytes(kPostsBytes + kArrivalsBytes + degree * peer_bytes) {}

  constexpr int64_t Half(uint32_t half) const { return kHeaderBytes + half * half_bytes; }
  constexpr int64_t Post(uint32_t half, int peer) const {
    return Half(half) + peer * static_cast<int64_t>(sizeof(ExchangePost));
  }
  // Where block `block` of `peer` writes the call's tag after its last store to this rank's output.
  constexpr int64_t Arrival(uint32_t half, int peer, int block) const {
    return Half(half) + kPostsBytes +
           (int64_t{peer} * kMaxExchangeBlocks + block) * static_cast<int64_t>(sizeof(uint64_t));
  }
  // Words of 4 bytes of payload and the call's tag (kernels/decoder/tagged_words.cuh): the first
  // two words of every unit of 16 bytes, and from `second_words` on the other two. So what the
  // threads of a warp send at once lies together, and takes the link in whole lines.
  constexpr int64_t Words(uint32_t half, int peer) const {
    return Half(half) + kPostsBytes + kArrivalsBytes + peer * peer_bytes;
  }
  constexpr int64_t num_bytes() const { return Half(2); }

  int64_t peer_bytes;    // room for the words that one peer pushes
  int64_t second_words;  // words from a unit's first two to its other two
  int64_t half_bytes;
};

}  // namespace lockstep::kernels
