#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device/cuda_stream.h"

// The exchange of ranks that compute on devices of one process: each rank has the columns of a
// matrix, and each needs the whole rows. Bytes are moved, nothing is added up.
namespace lockstep::kernels {

inline constexpr int kMaxExchangeRanks = 8;
inline constexpr int kExchangeUnitBytes = 16;  // what a thread moves at once
// Every device must have at least so many.
inline constexpr int kMinExchangeMultiprocessors = 64;

// What a rank knows of its group. Every device must have access to the memory of every other one.
struct ExchangeGroup {
  int degree = 0;
  int rank = 0;
  // Ranks share a device, as only in tests: see Exchange.
  bool shares_a_device = false;
  // Device memory of each rank, on its device: ExchangeMemoryBytes, zeroed before the first call.
  std::byte* memories[kMaxExchangeRanks] = {};
  // Calls of up to this many bytes of a rank's columns push them, each word with a tag. The others
  // put them right into the outputs. A multiple of 16.
  int64_t max_push_bytes = 0;
  // A rank that waits for longer sets the word below and ends its kernel with a trap.
  uint64_t hung_after_ns = 0;
  // Pinned, of all ranks, at first 0: the first wait that took too long, as ExchangeHang encodes
  // it. A rank that finds it set ends its kernel too.
  uint64_t* hang = nullptr;
};

// Rank `rank` has waited for rank `peer` in the call with this tag.
struct ExchangeHang {
  int rank = 0;
  int peer = 0;
  uint32_t tag = 0;

  constexpr uint64_t Encode() const {
    return uint64_t{1} << 63 | static_cast<uint64_t>(rank) << 40 |
           static_cast<uint64_t>(peer) << 32 | tag;
  }
  static constexpr ExchangeHang Decode(uint64_t word) {
    return {.rank = static_cast<int>(word >> 40 & 0xFF),
            .peer = static_cast<int>(word >> 32 & 0xFF),
            .tag = static_cast<uint32_t>(word)};
  }
};

struct ExchangeParams {
  ExchangeGroup group;
  const void* columns = nullptr;  // [num_rows, row_bytes], of this rank
  void* output = nullptr;         // [num_rows, degree * row_bytes]: rank 0's columns first
  int64_t num_rows = 0;           // at least 1
  int64_t row_bytes = 0;          // of one rank's columns, a multiple of 16
};

int64_t ExchangeMemoryBytes(int degree, int64_t max_push_bytes);

// Every rank calls this with equal sizes, as often and in the same order, on one stream of its own.
// All ranks' kernels must be able to run at the same time, also if ranks share a device: no rank
// may wait for another one between two calls, as a kernel that is loaded late may make it do.
//
// The kernel after this one may start, and fetch weights, while this one waits for other ranks. Not
// if ranks share a device: there it might take the room that another rank needs to come.
//
// Other ranks store to `output`, once this rank's kernels before this one have ended.
// INVALID_ARGUMENT for sizes or addresses that are no multiple of 16 bytes.
absl::Status Exchange(const CudaStream& stream, const ExchangeParams& params);

// For tests.
struct ExchangeFaults {
  bool alternates = true;     // false: every call uses the same half of the memory
  uint32_t max_delay_ns = 0;  // blocks sleep for up to so long before they send and receive
};
absl::Status ExchangeWithFaults(const CudaStream& stream, const ExchangeParams& params,
                                const ExchangeFaults& faults);

}  // namespace lockstep::kernels
