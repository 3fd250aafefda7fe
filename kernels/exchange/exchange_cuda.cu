#include <algorithm>

#include "common/status.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/timer.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/exchange/exchange.h"
#include "kernels/exchange/exchange_memory.h"

namespace lockstep::kernels {
namespace {

// A waiting block takes room on the device. Ranks may share one, so grids are small.
constexpr int kThreads = 512;
constexpr int kMaxPushBlocks = 16;
constexpr int kMaxPullBlocks = 32;
constexpr int kUnitBytes = 16;  // what a thread moves at once
constexpr int kPullUnits = 4;   // loads of a thread that are under way at once
constexpr uint32_t kPollsBetweenChecks = 1024;

struct ExchangeArguments {
  ExchangeParams params;
  ExchangeMemory memory;
  ExchangeFaults faults;
  uint32_t units_per_row;  // of one rank's columns
  uint32_t num_units;
};

// One call in one block. Call every method from all threads. kFaulty: faults are looked at.
template <bool kFaulty>
class ExchangeCall {
 public:
  // Call after the wait for the preceding kernel.
  __device__ explicit ExchangeCall(const ExchangeArguments& arguments)
      : all_(arguments),
        group_(arguments.params.group),
        tag_(reinterpret_cast<const volatile ExchangeHeader*>(OwnMemory())->last_tag + 1),
        half_(!kFaulty || arguments.faults.alternates ? tag_ % 2 : 0) {}

  // --- push: for few bytes. They make one trip, each word with the tag that says it has come ---

  __device__ void Push() const {
    Delay(0);
    const uint4* const columns = static_cast<const uint4*>(all_.params.columns);
    for (uint32_t unit = Thread(); unit < all_.num_units; unit += NumThreads()) {
      const uint4 payload = columns[unit];
      for (int turn = 1; turn < group_.degree; ++turn) {
        uint64_t* const to = Words(Peer(turn), group_.rank) + 4 * unit;
        ptx::StoreRelaxedSystem(
            to, make_ulonglong2(TaggedWord(payload.x, tag_), TaggedWord(payload.y, tag_)));
        ptx::StoreRelaxedSystem(
            to + 2, make_ulonglong2(TaggedWord(payload.z, tag_), TaggedWord(payload.w, tag_)));
      }
      *Output(group_.rank, unit) = payload;
    }
    Delay(1);
  }

  __device__ void TakePushed() const {
    const uint32_t num_units = all_.num_units;
    const uint32_t total = static_cast<uint32_t>(group_.degree - 1) * num_units;
    for (uint32_t i = Thread(); i < total; i += NumThreads()) {
      const uint32_t unit = i % num_units;
      const int peer = Peer(1 + static_cast<int>(i / num_units));
      const uint64_t* const from = Words(group_.rank, peer) + 4 * unit;
      Patience patience;
      ulonglong2 first, second;
      do {
        first = ptx::LoadRelaxedSystem2(from);
        second = ptx::LoadRelaxedSystem2(from + 2);
      } while (!(HaveTag(first, tag_) && HaveTag(second, tag_)) && Waits(patience, peer));
      *Output(peer, unit) =
          make_uint4(static_cast<uint32_t>(first.x), static_cast<uint32_t>(first.y),
                     static_cast<uint32_t>(second.x), static_cast<uint32_t>(second.y));
    }
  }

  // --- pull: for many bytes. A post says that a rank's columns are there. Peers then read them ---

  __device__ void Post() const {
    Delay(0);
    const int peer = static_cast<int>(threadIdx.x);
    if (blockIdx.x == 0 && peer < group_.degree && peer != group_.rank) {
      ExchangePost* const to = At<ExchangePost>(peer, all_.memory.Post(half_, group_.rank));
      ptx::StoreRelaxedSystem(
          &to->columns, make_ulonglong2(reinterpret_cast<uint64_t>(all_.params.columns), Shape()));
      // The preceding kernel has written the columns, on other multiprocessors.
      __threadfence_system();
      ptx::StoreReleaseSystem(&to->tag, tag_);
    }
    Delay(1);
  }

  __device__ void Pull() const {
    __shared__ const uint4* columns[kMaxExchangeRanks];
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == group_.rank) {
      columns[thread] = static_cast<const uint4*>(all_.params.columns);
    } else if (thread < group_.degree) {
      columns[thread] = AwaitPost(thread);
    }
    __syncthreads();
    const uint32_t num_units = all_.num_units;
    // Each rank begins with its own columns, so no rank is read by all others at first.
    for (int turn = 0; turn < group_.degree; ++turn) {
      const int peer = Peer(turn);
      const uint4* const from = columns[peer];
      for (uint32_t first = Thread(); first < num_units; first += kPullUnits * NumThreads()) {
        ulonglong2 units[kPullUnits];
#pragma unroll
        for (int i = 0; i < kPullUnits; ++i) {
          const uint32_t unit = first + i * NumThreads();
          if (unit < num_units) {
            units[i] = ptx::LoadRelaxedSystem2(reinterpret_cast<const uint64_t*>(from + unit));
          }
        }
#pragma unroll
        for (int i = 0; i < kPullUnits; ++i) {
          const uint32_t unit = first + i * NumThreads();
          if (unit < num_units) *reinterpret_cast<ulonglong2*>(Output(peer, unit)) = units[i];
        }
      }
    }
  }

  // The block that ends last leaves the tag for the next call.
  __device__ void End() const {
    ExchangeHeader* const header = reinterpret_cast<ExchangeHeader*>(OwnMemory());
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

 private:
  struct Patience {
    uint32_t num_polls = 0;
    uint64_t begin_ns = 0;  // 0: not looked at yet
  };

  __device__ uint32_t Thread() const { return blockIdx.x * kThreads + threadIdx.x; }
  __device__ uint32_t NumThreads() const { return gridDim.x * kThreads; }
  __device__ int Peer(int turn) const { return (group_.rank + turn) % group_.degree; }
  __device__ std::byte* OwnMemory() const { return group_.memories[group_.rank]; }
  template <typename T>
  __device__ T* At(int rank, int64_t offset) const {
    return reinterpret_cast<T*>(group_.memories[rank] + offset);
  }
  // In the memory of `owner`, what `peer` pushes.
  __device__ uint64_t* Words(int owner, int peer) const {
    return At<uint64_t>(owner, all_.memory.Words(half_, peer));
  }
  __device__ uint4* Output(int rank, uint32_t unit) const {
    const uint32_t row = unit / all_.units_per_row;
    const uint32_t column = unit % all_.units_per_row;
    const int64_t place = static_cast<int64_t>(row) * group_.degree + rank;
    return static_cast<uint4*>(all_.params.output) + place * all_.units_per_row + column;
  }
  __device__ uint64_t Shape() const {
    return static_cast<uint64_t>(all_.params.num_rows) << 32 |
           static_cast<uint64_t>(all_.params.row_bytes);
  }

  __device__ const uint4* AwaitPost(int peer) const {
    const ExchangePost* const post =
        At<const ExchangePost>(group_.rank, all_.memory.Post(half_, peer));
    Patience patience;
    while (ptx::LoadAcquireSystem(&post->tag) != tag_) Waits(patience, peer);
    const ulonglong2 fields = ptx::LoadRelaxedSystem2(&post->columns);
    if (fields.y != Shape()) GiveUp(peer);  // the ranks are not in the same pass
    return reinterpret_cast<const uint4*>(fields.x);
  }

  // True: look again. Does not return if the wait has taken too long.
  __device__ bool Waits(Patience& patience, int peer) const {
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

  // No rank writes to this half before its call after the next one.
  __device__ void ClearHalf() const {
    uint4* const words = At<uint4>(group_.rank, all_.memory.Half(half_));
    const int64_t num_words = all_.memory.half_bytes / static_cast<int64_t>(sizeof(uint4));
    for (int64_t i = threadIdx.x; i < num_words; i += kThreads) words[i] = uint4{};
    __threadfence_system();
    __syncthreads();
  }

  // Every bit of the result depends on every bit of the value.
  __device__ static uint32_t Mix(uint32_t value) {
    value = (value ^ value >> 16) * 0x7FEB352Du;
    value = (value ^ value >> 15) * 0x846CA68Bu;
    return value ^ value >> 16;
  }
  __device__ void Delay(uint32_t place) const {
    if constexpr (kFaulty) {
      if (all_.faults.max_delay_ns == 0) return;
      const uint32_t index = (tag_ * 2 + place) * kMaxExchangeRanks + group_.rank;
      const uint32_t draw = Mix(index * 64 + blockIdx.x);
      // Most calls are not delayed at all.
      if (draw % 8 == 0) __nanosleep((draw >> 3) % all_.faults.max_delay_ns);
      __syncthreads();
    }
  }

  const ExchangeArguments& all_;
  const ExchangeGroup& group_;
  const uint32_t tag_;
  const uint32_t half_;
};

// A kernel after this one would take room on the device while this one waits. If ranks share the
// device, the rank that it waits for might then find none. So no successor starts before the wait
// is over.
template <bool kFaulty>
__global__ void __launch_bounds__(kThreads)
    PushKernel(const __grid_constant__ ExchangeArguments arguments) {
  ptx::WaitForPredecessor();
  const ExchangeCall<kFaulty> call(arguments);
  call.Push();
  call.TakePushed();
  ptx::AllowSuccessor();
  call.End();
}

template <bool kFaulty>
__global__ void __launch_bounds__(kThreads)
    PullKernel(const __grid_constant__ ExchangeArguments arguments) {
  ptx::WaitForPredecessor();
  const ExchangeCall<kFaulty> call(arguments);
  call.Post();
  call.Pull();
  ptx::AllowSuccessor();
  call.End();
}

bool IsMultiple(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kUnitBytes == 0;
}

absl::Status Check(const ExchangeParams& params) {
  const ExchangeGroup& group = params.group;
  if (group.degree < 2 || group.degree > kMaxExchangeRanks || group.rank < 0 ||
      group.rank >= group.degree || group.max_push_bytes % kUnitBytes != 0) {
    return InvalidArgument("Exchange: rank {} of {}, at most {} ranks; pushes up to {} bytes",
                           group.rank, group.degree, kMaxExchangeRanks, group.max_push_bytes);
  }
  if (params.num_rows < 1 || params.row_bytes < kUnitBytes || params.row_bytes % kUnitBytes != 0 ||
      params.num_rows * params.row_bytes / kUnitBytes > INT32_MAX / kMaxExchangeRanks) {
    return InvalidArgument("Exchange: {} rows of {} bytes, which must be a multiple of {}",
                           params.num_rows, params.row_bytes, kUnitBytes);
  }
  if (!IsMultiple(params.columns) || !IsMultiple(params.output)) {
    return InvalidArgument("Exchange: columns and output must be aligned to {} bytes", kUnitBytes);
  }
  return absl::OkStatus();
}

template <bool kFaulty>
absl::Status LaunchExchange(const CudaStream& stream, const ExchangeParams& params,
                            const ExchangeFaults& faults) {
  LOCKSTEP_RETURN_IF_ERROR(Check(params));
  const int64_t num_bytes = params.num_rows * params.row_bytes;
  const ExchangeArguments arguments = {
      .params = params,
      .memory = ExchangeMemory(params.group.degree, params.group.max_push_bytes),
      .faults = faults,
      .units_per_row = static_cast<uint32_t>(params.row_bytes / kUnitBytes),
      .num_units = static_cast<uint32_t>(num_bytes / kUnitBytes)};
  const bool pushes = num_bytes <= params.group.max_push_bytes;
  const int64_t units = pushes ? int64_t{arguments.num_units} * (params.group.degree - 1)
                               : (int64_t{arguments.num_units} + kPullUnits - 1) / kPullUnits;
  const int64_t num_blocks = std::min<int64_t>((units + kThreads - 1) / kThreads,
                                               pushes ? kMaxPushBlocks : kMaxPullBlocks);
  const auto kernel = pushes ? PushKernel<kFaulty> : PullKernel<kFaulty>;
  // While a block waits, its multiprocessor cannot take memory from its cache to share with others.
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  return Launch(stream, "Exchange",
                {.grid = dim3(static_cast<unsigned>(num_blocks)), .block = kThreads}, kernel,
                arguments);
}

}  // namespace

int64_t ExchangeMemoryBytes(int degree, int64_t max_push_bytes) {
  return ExchangeMemory(degree, max_push_bytes).num_bytes();
}

absl::Status Exchange(const CudaStream& stream, const ExchangeParams& params) {
  return LaunchExchange<false>(stream, params, {});
}

absl::Status ExchangeWithFaults(const CudaStream& stream, const ExchangeParams& params,
                                const ExchangeFaults& faults) {
  return LaunchExchange<true>(stream, params, faults);
}

}  // namespace lockstep::kernels
