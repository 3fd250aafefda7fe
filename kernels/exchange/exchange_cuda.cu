#include <algorithm>

#include "common/status.h"
#include "kernels/device/launch.cuh"
#include "kernels/exchange/exchange.h"
#include "kernels/exchange/exchange_check.h"
#include "kernels/exchange/exchange_link.cuh"
#include "kernels/exchange/exchange_memory.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kMaxThreads = 1024;  // of a block that pushes alone, a unit each
// Where ranks share a device, the blocks of all of them must find room there.
constexpr int kMaxSharedPushBlocks = 16;
constexpr int kMaxSharedPutBlocks = 32;
constexpr int kPutUnits = 4;  // loads of a thread that are under way at once

struct ExchangeArguments {
  ExchangeParams params;
  ExchangeMemory memory;
  ExchangeFaults faults;
  uint32_t units_per_row;  // of one rank's columns
  uint32_t num_units;
};

// One call in one block. Call every method from all threads.
template <bool kFaulty>
class ExchangeCall {
 public:
  // Call after the wait for the preceding kernel.
  __device__ explicit ExchangeCall(const ExchangeArguments& arguments)
      : all_(arguments),
        group_(arguments.params.group),
        link_(group_, arguments.memory, &arguments.faults) {}

  // --- push: for few bytes. They make one trip, each word with the tag that says it has come ---

  __device__ void Push() const {
    link_.Delay(0);
    const uint4* const columns = static_cast<const uint4*>(all_.params.columns);
    for (uint32_t unit = Thread(); unit < all_.num_units; unit += NumThreads()) {
      const uint4 payload = columns[unit];
      link_.Push(unit, payload);
      *Output(group_.rank, unit) = payload;
    }
    link_.Delay(1);
  }

  __device__ void TakePushed() const {
    const uint32_t num_units = all_.num_units;
    const uint32_t total = static_cast<uint32_t>(group_.degree - 1) * num_units;
    for (uint32_t i = Thread(); i < total; i += NumThreads()) {
      const uint32_t unit = i % num_units;
      const int peer = link_.Peer(1 + static_cast<int>(i / num_units));
      *Output(peer, unit) = link_.Take(peer, unit);
    }
  }

  // --- put: for many bytes. A post says where a rank's output is, and that all kernels of the rank
  // that read it have ended. Its peers then store to it ---

  __device__ void Post() const {
    link_.Delay(0);
    const int peer = static_cast<int>(threadIdx.x);
    if (blockIdx.x == 0 && peer < group_.degree && peer != group_.rank) {
      ExchangePost* const to = link_.Post(peer, group_.rank);
      ptx::StoreRelaxedSystem(
          &to->output, make_ulonglong2(reinterpret_cast<uint64_t>(all_.params.output), Shape()));
      ptx::StoreReleaseSystem(&to->tag, link_.tag());
    }
    link_.Delay(1);
  }

  __device__ void Put() const {
    __shared__ uint4* outputs[kMaxExchangeRanks];
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < group_.degree) {
      outputs[thread] =
          thread == group_.rank ? static_cast<uint4*>(all_.params.output) : AwaitPost(thread);
    }
    __syncthreads();
    const uint4* const columns = static_cast<const uint4*>(all_.params.columns);
    for (uint32_t first = Thread(); first < all_.num_units; first += kPutUnits * NumThreads()) {
      uint4 units[kPutUnits];
      int64_t places[kPutUnits];
#pragma unroll
      for (int i = 0; i < kPutUnits; ++i) {
        const uint32_t unit = first + i * NumThreads();
        if (unit < all_.num_units) units[i] = columns[unit];
        places[i] = Place(group_.rank, unit);
      }
      // Each rank begins with its own output, so no rank is written to by all others at first.
      for (int turn = 0; turn < group_.degree; ++turn) {
        uint4* const output = outputs[link_.Peer(turn)];
#pragma unroll
        for (int i = 0; i < kPutUnits; ++i) {
          if (first + i * NumThreads() < all_.num_units) output[places[i]] = units[i];
        }
      }
    }
  }

  // Call after Put, from all threads: tells the peers that this block has stored all, and waits
  // until the same block of each of them has.
  __device__ void AwaitPeers() const {
    __syncthreads();
    const int peer = static_cast<int>(threadIdx.x);
    if (peer >= group_.degree || peer == group_.rank) return;
    const int block = static_cast<int>(blockIdx.x);
    ptx::StoreReleaseSystem(link_.Arrival(peer, group_.rank, block), link_.tag());
    link_.AwaitTag(link_.Arrival(group_.rank, peer, block), peer);
  }

  __device__ void End() const { link_.End(); }

 private:
  __device__ uint32_t Thread() const { return blockIdx.x * blockDim.x + threadIdx.x; }
  __device__ uint32_t NumThreads() const { return gridDim.x * blockDim.x; }
  // Where a unit of a rank's columns belongs in an output.
  __device__ int64_t Place(int rank, uint32_t unit) const {
    const uint32_t row = unit / all_.units_per_row;
    const uint32_t column = unit % all_.units_per_row;
    return (static_cast<int64_t>(row) * group_.degree + rank) * all_.units_per_row + column;
  }
  __device__ uint4* Output(int rank, uint32_t unit) const {
    return static_cast<uint4*>(all_.params.output) + Place(rank, unit);
  }
  __device__ uint64_t Shape() const {
    return static_cast<uint64_t>(all_.params.num_rows) << 32 |
           static_cast<uint64_t>(all_.params.row_bytes);
  }

  __device__ uint4* AwaitPost(int peer) const {
    const ExchangePost* const post = link_.Post(group_.rank, peer);
    link_.AwaitTag(&post->tag, peer);
    const ulonglong2 fields = ptx::LoadRelaxedSystem2(&post->output);
    if (fields.y != Shape()) link_.GiveUp(peer);  // the ranks are not in the same pass
    return reinterpret_cast<uint4*>(fields.x);
  }

  const ExchangeArguments& all_;
  const ExchangeGroup& group_;
  const ExchangeLink<kFaulty> link_;
};

template <bool kFaulty>
__global__ void __launch_bounds__(kMaxThreads)
    PushKernel(const __grid_constant__ ExchangeArguments arguments) {
  AwaitExchange(arguments.params.group);
  const ExchangeCall<kFaulty> call(arguments);
  call.Push();
  call.TakePushed();
  call.End();
}

template <bool kFaulty>
__global__ void __launch_bounds__(kThreads, 2)
    PutKernel(const __grid_constant__ ExchangeArguments arguments) {
  AwaitExchange(arguments.params.group);
  const ExchangeCall<kFaulty> call(arguments);
  call.Post();
  call.Put();
  call.AwaitPeers();
  call.End();
}

absl::Status Check(const ExchangeParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(
      CheckExchange("Exchange", params.group, {params.columns, params.output}));
  if (params.num_rows < 1 || params.row_bytes < kExchangeUnitBytes ||
      params.row_bytes % kExchangeUnitBytes != 0 ||
      params.num_rows * params.row_bytes / kExchangeUnitBytes > INT32_MAX / kMaxExchangeRanks) {
    return InvalidArgument("Exchange: {} rows of {} bytes, which must be a multiple of {}",
                           params.num_rows, params.row_bytes, kExchangeUnitBytes);
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
      .units_per_row = static_cast<uint32_t>(params.row_bytes / kExchangeUnitBytes),
      .num_units = static_cast<uint32_t>(num_bytes / kExchangeUnitBytes)};
  const bool pushes = num_bytes <= params.group.max_push_bytes;
  const int64_t units = pushes ? int64_t{arguments.num_units} * (params.group.degree - 1)
                               : (int64_t{arguments.num_units} + kPutUnits - 1) / kPutUnits;
  const int max_blocks = !params.group.shares_a_device ? kMaxExchangeBlocks
                         : pushes                      ? kMaxSharedPushBlocks
                                                       : kMaxSharedPutBlocks;
  // One block need not wait for others at the end.
  const bool is_alone = pushes && units <= kMaxThreads;
  const int64_t num_threads = is_alone ? (units + 31) / 32 * 32 : kThreads;
  const int64_t num_blocks = std::min<int64_t>((units + num_threads - 1) / num_threads, max_blocks);
  const auto kernel = pushes ? PushKernel<kFaulty> : PutKernel<kFaulty>;
  // While a block waits, its multiprocessor cannot take memory from its cache to share with others.
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  return Launch(stream, "Exchange",
                {.grid = dim3(static_cast<unsigned>(num_blocks)),
                 .block = dim3(static_cast<unsigned>(num_threads))},
                kernel, arguments);
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
