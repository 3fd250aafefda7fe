#pragma once

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/timer.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/exchange/exchange.h"
#include "kernels/exchange/exchange_memory.h"

// A rank's side of one call, in one block: what the kernels of exchanges share.
namespace lockstep::kernels {

// Call at the beginning of a kernel. Where ranks share a device, the next kernel must not start
// before this one has ended. So no thread may let it start: one thread would do so for its whole
// block.
__device__ __forceinline__ void AwaitExchange(const ExchangeGroup& group) {
  if (!group.shares_a_device) ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
}

// kFaulty: there are faults.
template <bool kFaulty>
class ExchangeLink {
 public:
  struct Patience {
    uint32_t num_polls = 0;
    uint64_t begin_ns = 0;  // 0: not looked at yet
  };

  // Call after the wait for the preceding kernel.
  __device__ ExchangeLink(const ExchangeGroup& group, const ExchangeMemory& memory,
                          const ExchangeFaults* faults = nullptr)
      : group_(group),
        memory_(memory),
        faults_(faults),
        tag_(At<const volatile ExchangeHeader>(group.rank, 0)->last_tag + 1),
        half_(!kFaulty || faults->alternates ? tag_ % 2 : 0) {}

  __device__ uint32_t tag() const { return tag_; }
  // The ranks in the order of turns: this one, and then the others.
  __device__ int Peer(int turn) const { return (group_.rank + turn) % group_.degree; }
  // Of the rank that a peer writes to.
  __device__ ExchangePost* Post(int owner, int peer) const {
    return At<ExchangePost>(owner, memory_.Post(half_, peer));
  }

  // Of block `block` of a peer that stores to the output of rank `owner`.
  __device__ uint64_t* Arrival(int owner, int peer, int block) const {
    return At<uint64_t>(owner, memory_.Arrival(half_, peer, block));
  }

  // One unit of this rank's columns, to all others.
  __device__ void Push(uint32_t unit, const uint4& payload) const {
    for (int turn = 1; turn < group_.degree; ++turn) {
      uint64_t* const to = Words(Peer(turn), group_.rank) + 2 * unit;
      ptx::StoreRelaxedSystem(
          to, make_ulonglong2(TaggedWord(payload.x, tag_), TaggedWord(payload.y, tag_)));
      ptx::StoreRelaxedSystem(
          to + memory_.second_words,
          make_ulonglong2(TaggedWord(payload.z, tag_), TaggedWord(payload.w, tag_)));
    }
  }
  // The unit that a peer pushed, once it has come.
  __device__ uint4 Take(int peer, uint32_t unit) const {
    const uint64_t* const from = Words(group_.rank, peer) + 2 * unit;
    Patience patience;
    ulonglong2 first, second;
    do {
      first = ptx::LoadRelaxedSystem2(from);
      second = ptx::LoadRelaxedSystem2(from + memory_.second_words);
    } while (!(HaveTag(first, tag_) && HaveTag(second, tag_)) && Waits(patience, peer));
    return make_uint4(static_cast<uint32_t>(first.x), static_cast<uint32_t>(first.y),
                      static_cast<uint32_t>(second.x), static_cast<uint32_t>(second.y));
  }

  // Waits until `peer` has stored the tag of this call. Everything that `peer` wrote before is then
  // visible.
  __device__ void AwaitTag(const uint64_t* tag, int peer) const {
    Patience patience;
    while (ptx::LoadAcquireSystem(tag) != tag_) Waits(patience, peer);
  }

  // True: look again. Does not return if the wait has taken too long.
  __device__ bool Waits(Patience& patience, int peer) const {
    constexpr uint32_t kPollsBetweenChecks = 1024;
    if (++patience.num_polls % kPollsBetweenChecks != 0) return true;
    const uint64_t now_ns = ptx::GlobalTimerNs();
    if (patience.begin_ns == 0) patience.begin_ns = now_ns;
    const bool other_hangs = *static_cast<const volatile uint64_t*>(group_.hang) != 0;
    if (other_hangs || now_ns - patience.begin_ns > group_.hung_after_ns) GiveUp(peer);
    return true;
  }
  __device__ void GiveUp(int peer) const {
    volatile uint64_t* const hang = group_.hang;
    if (*hang == 0) {
      *hang = ExchangeHang{.rank = group_.rank, .peer = peer, .tag = tag_}.Encode();
      __threadfence_system();
    }
    __trap();
  }

  // Call from all threads once this block needs nothing more of the call. The block that ends last
  // leaves the tag for the next call.
  __device__ void End() const {
    ExchangeHeader* const header = At<ExchangeHeader>(group_.rank, 0);
    __syncthreads();  // all have read the tag and what the peers sent
    // One block, as for a few rows, need not count.
    if (gridDim.x > 1) {
      const bool is_last = __syncthreads_or(
          threadIdx.x == 0 && ptx::AddAcquireRelease(&header->num_ended, 1) == gridDim.x - 1);
      if (!is_last) return;
    }
    if (tag_ >= ExchangeMemory::kLastTag - 1) ClearHalf();
    if (threadIdx.x != 0) return;
    header->num_ended = 0;
    header->last_tag = tag_ == ExchangeMemory::kLastTag ? 0 : tag_;
  }

  // Call from all threads.
  __device__ void Delay(uint32_t place) const {
    if constexpr (kFaulty) {
      if (faults_->max_delay_ns == 0) return;
      const uint32_t index = (tag_ * 2 + place) * kMaxExchangeRanks + group_.rank;
      const uint32_t draw = Mix(index * 128 + blockIdx.x);
      // Most calls are not delayed at all.
      if (draw % 8 == 0) __nanosleep((draw >> 3) % faults_->max_delay_ns);
      __syncthreads();
    }
  }

 private:
  template <typename T>
  __device__ T* At(int rank, int64_t offset) const {
    return reinterpret_cast<T*>(group_.memories[rank] + offset);
  }
  // In the memory of `owner`, what `peer` pushes.
  __device__ uint64_t* Words(int owner, int peer) const {
    return At<uint64_t>(owner, memory_.Words(half_, peer));
  }

  // No rank writes to this half before its call after the next one.
  __device__ void ClearHalf() const {
    uint4* const words = At<uint4>(group_.rank, memory_.Half(half_));
    const int64_t num_words = memory_.half_bytes / static_cast<int64_t>(sizeof(uint4));
    for (int64_t i = threadIdx.x; i < num_words; i += blockDim.x) words[i] = uint4{};
    __threadfence_system();
    __syncthreads();
  }

  // Every bit of the result depends on every bit of the value.
  __device__ static uint32_t Mix(uint32_t value) {
    value = (value ^ value >> 16) * 0x7FEB352Du;
    value = (value ^ value >> 15) * 0x846CA68Bu;
    return value ^ value >> 16;
  }

  const ExchangeGroup& group_;
  const ExchangeMemory& memory_;
  const ExchangeFaults* const faults_;
  const uint32_t tag_;
  const uint32_t half_;
};

}  // namespace lockstep::kernels
