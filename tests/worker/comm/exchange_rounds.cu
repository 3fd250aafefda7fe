#include "common/status.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "tests/worker/comm/exchange_rounds.h"

namespace lockstep::testing {
namespace {

constexpr int kBlocks = 8;
constexpr int kThreads = 256;

__device__ uint32_t Value(uint32_t round, int64_t row, int64_t column) {
  const uint32_t index = static_cast<uint32_t>(row * 4099 + column);
  return (round * 2654435761u + index * 40503u) ^ (round >> 7);
}

// As in a model, a kernel lets the next one start at once. So an exchange may start while a kernel
// still reads what the last exchange wrote. It must not let peers store there yet.
__device__ void Begin() {
  kernels::ptx::AllowSuccessor();
  kernels::ptx::WaitForPredecessor();
}

__global__ void FillKernel(ExchangeRound all) {
  Begin();
  const uint32_t round = *static_cast<const volatile uint32_t*>(all.round);
  const int64_t num_words = all.num_rows * all.row_words;
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < num_words; i += kBlocks * kThreads) {
    const int64_t column = all.rank * all.row_words + i % all.row_words;
    all.columns[i] = Value(round, i / all.row_words, column);
  }
}

__global__ void CheckKernel(ExchangeRound all) {
  Begin();
  const uint32_t round = *static_cast<const volatile uint32_t*>(all.round);
  const int64_t columns = all.degree * all.row_words;
  unsigned long long num_wrong = 0;
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < all.num_rows * columns;
       i += kBlocks * kThreads) {
    num_wrong += all.output[i] != Value(round, i / columns, i % columns);
  }
  if (num_wrong > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(all.num_wrong), num_wrong);
  }
}

__global__ void NextRoundKernel(uint32_t* round) {
  Begin();
  ++*round;
}

}  // namespace

absl::Status FillColumns(const kernels::CudaStream& stream, const ExchangeRound& round) {
  return kernels::Launch(stream, "Fill", {.grid = kBlocks, .block = kThreads}, FillKernel, round);
}

absl::Status CheckOutput(const kernels::CudaStream& stream, const ExchangeRound& round) {
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::Launch(stream, "Check", {.grid = kBlocks, .block = kThreads}, CheckKernel, round));
  return kernels::Launch(stream, "NextRound", {.grid = 1, .block = 1}, NextRoundKernel,
                         round.round);
}

}  // namespace lockstep::testing
