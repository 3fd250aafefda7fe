#include <benchmark/benchmark.h>

#include <numeric>
#include <thread>
#include <vector>

#include "bench/kernels/gemm_operands.h"
#include "common/check.h"
#include "kernels/activation/swiglu.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rope/rope_table.h"
#include "kernels/rope/rotary_append.h"

// The ops of a layer beside GEMM, in the shapes of SmolLM2-135M: hidden 576, 9 heads of 64 over 3
// KV heads, intermediate 1536.
namespace lockstep::bench {
namespace {

using benchmark::Counter;
using kernels::BFloat16;
using kernels::kKvBlockTokens;

constexpr int64_t kHidden = 576;
constexpr int64_t kIntermediate = 1536;
constexpr int64_t kHeads = 9;
constexpr int64_t kKvHeads = 3;
constexpr int64_t kHeadDim = 64;
constexpr uint32_t kMaxContext = 4096;

// All cores, the best instruction set.
class Machine {
 public:
  Machine() : threads_(static_cast<int>(std::thread::hardware_concurrency())) {}
  kernels::Stream stream() {
    return {.threads = &threads_, .instruction_set = kernels::BestInstructionSet()};
  }

 private:
  kernels::ThreadPool threads_;
};

void Expect(const absl::Status& status) {
  LOCKSTEP_CHECK(status.ok(), "the benchmark's shape is refused");
}

void SetRates(benchmark::State& state, double operations, double bytes) {
  state.counters["FLOP/s"] = Counter(operations, Counter::kIsIterationInvariantRate);
  state.counters["bytes/s"] = Counter(bytes, Counter::kIsIterationInvariantRate);
}

// `num_sequences` sequences, each with `num_new` tokens at the end of `context`.
void BM_PagedAttention(benchmark::State& state) {
  const int64_t num_sequences = state.range(0);
  const int64_t context = state.range(1);
  const int64_t num_new = state.range(2);
  Machine machine;
  const int64_t blocks_per_sequence = (context + kKvBlockTokens - 1) / kKvBlockTokens;
  const int64_t num_blocks = blocks_per_sequence * num_sequences;
  std::vector<BFloat16> pool =
      RandomBFloat16s(num_blocks * kernels::KvBlockElements(kKvHeads, kHeadDim), 1);
  std::vector<BlockId> blocks(static_cast<size_t>(num_blocks));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  std::vector<kernels::AttentionSequence> sequences;
  for (int64_t i = 0; i < num_sequences; ++i) {
    sequences.push_back({.first_token = i * num_new,
                         .num_tokens = num_new,
                         .first_position = context - num_new,
                         .block_table = blocks.data() + i * blocks_per_sequence});
  }
  const std::vector<BFloat16> query =
      RandomBFloat16s(num_sequences * num_new * kHeads * kHeadDim, 2);
  std::vector<BFloat16> output(query.size());
  for (auto _ : state) {
    Expect(PagedAttention(machine.stream(), {.query = query.data(),
                                             .query_stride = kHeads * kHeadDim,
                                             .output = output.data(),
                                             .output_stride = kHeads * kHeadDim,
                                             .kv = {.data = pool.data(),
                                                    .num_blocks = num_blocks,
                                                    .num_kv_heads = kKvHeads,
                                                    .head_dim = kHeadDim},
                                             .sequences = sequences,
                                             .num_heads = kHeads,
                                             .scale = 0.125f}));
  }
  const double pairs = static_cast<double>(num_sequences * num_new) *
                       static_cast<double>(2 * context - num_new + 1) / 2.0;
  SetRates(state, pairs * 4.0 * kHeads * kHeadDim,
           static_cast<double>(num_sequences * context * 4 * kKvHeads * kHeadDim));
}
BENCHMARK(BM_PagedAttention)
    ->ArgNames({"sequences", "context", "new"})
    ->Args({1, 512, 1})
    ->Args({8, 512, 1})
    ->Args({1, 4096, 1})
    ->Args({1, 512, 512})
    ->Args({1, 4096, 512})
    ->UseRealTime();

void BM_AddRmsNorm(benchmark::State& state) {
  const int64_t num_rows = state.range(0);
  Machine machine;
  std::vector<BFloat16> residual = RandomBFloat16s(num_rows * kHidden, 1);
  const std::vector<BFloat16> delta(residual.size());
  const std::vector<float> weight(kHidden, 1.0f);
  std::vector<BFloat16> output(residual.size());
  for (auto _ : state) {
    Expect(RmsNorm(machine.stream(), {.input = residual.data(),
                                      .delta = delta.data(),
                                      .residual_out = residual.data(),
                                      .weight = weight.data(),
                                      .output = output.data(),
                                      .num_rows = num_rows,
                                      .size = kHidden,
                                      .eps = 1e-5f}));
  }
  SetRates(state, static_cast<double>(num_rows * kHidden * 5),
           static_cast<double>(num_rows * kHidden * 8));
}
BENCHMARK(BM_AddRmsNorm)->ArgName("rows")->Arg(1)->Arg(512)->UseRealTime();

void BM_SwiGlu(benchmark::State& state) {
  const int64_t num_rows = state.range(0);
  Machine machine;
  const std::vector<BFloat16> gate_up = RandomBFloat16s(num_rows * 2 * kIntermediate, 1);
  std::vector<BFloat16> output(static_cast<size_t>(num_rows * kIntermediate));
  for (auto _ : state) {
    Expect(SwiGlu(machine.stream(), {.gate_up = gate_up.data(),
                                     .output = output.data(),
                                     .num_rows = num_rows,
                                     .size = kIntermediate}));
  }
  SetRates(state, static_cast<double>(num_rows * kIntermediate * 20),
           static_cast<double>(num_rows * kIntermediate * 6));
}
BENCHMARK(BM_SwiGlu)->ArgName("rows")->Arg(1)->Arg(512)->UseRealTime();

void BM_RotaryAppend(benchmark::State& state) {
  const int64_t num_tokens = state.range(0);
  Machine machine;
  const kernels::RopeTable table =
      MakeRopeTable(kernels::ComputeRopeFrequencies({}, kHeadDim), kMaxContext);
  std::vector<BFloat16> qkv = RandomBFloat16s(num_tokens * (kHeads + 2 * kKvHeads) * kHeadDim, 1);
  std::vector<uint32_t> positions(static_cast<size_t>(num_tokens));
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<uint64_t> slots(positions.begin(), positions.end());
  const int64_t num_blocks = num_tokens / kKvBlockTokens + 1;
  std::vector<BFloat16> pool(
      static_cast<size_t>(num_blocks * kernels::KvBlockElements(kKvHeads, kHeadDim)));
  for (auto _ : state) {
    Expect(RotaryAppend(machine.stream(), {.qkv = qkv.data(),
                                           .cos = table.cos.data(),
                                           .sin = table.sin.data(),
                                           .positions = positions.data(),
                                           .kv_slots = slots.data(),
                                           .kv = {.data = pool.data(),
                                                  .num_blocks = num_blocks,
                                                  .num_kv_heads = kKvHeads,
                                                  .head_dim = kHeadDim},
                                           .num_heads = kHeads,
                                           .num_tokens = num_tokens}));
  }
  const double elements = static_cast<double>(num_tokens * (kHeads + kKvHeads) * kHeadDim);
  SetRates(state, elements * 3.0, elements * 4.0);
}
BENCHMARK(BM_RotaryAppend)->ArgName("tokens")->Arg(1)->Arg(512)->UseRealTime();

}  // namespace
}  // namespace lockstep::bench
