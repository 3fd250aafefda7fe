#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "bench/kernels/gemm_operands.h"
#include "common/check.h"
#include "kernels/activation/swiglu.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/kv_cache/fp8_kv.h"
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
using kernels::KvType;

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

// Blocks of random numbers. As codes all of them have the scale 1.
std::vector<std::byte> RandomKv(KvType type, int64_t num_blocks) {
  const int64_t head_bytes = KvHeadBytes(type, kHeadDim);
  const int64_t num_heads = num_blocks * kKvHeads;
  std::vector<std::byte> pool(static_cast<size_t>(num_heads * head_bytes));
  if (type == KvType::kBFloat16) {
    const std::vector<BFloat16> elements =
        RandomBFloat16s(num_heads * kernels::KvHeadElements(kHeadDim), 1);
    std::memcpy(pool.data(), elements.data(), pool.size());
    return pool;
  }
  std::mt19937 generator(1);
  constexpr uint32_t kCodesBelow16 = 0x58;
  for (std::byte& code : pool) {
    const uint32_t bits = generator();
    code = static_cast<std::byte>((bits & 0x80) | (bits >> 8) % kCodesBelow16);
  }
  const kernels::PagedKv kv = {
      .data = pool.data(), .num_kv_heads = kKvHeads, .head_dim = kHeadDim, .type = type};
  for (int64_t head = 0; head < num_heads; ++head) {
    std::fill_n(KeyScales(kv, head / kKvHeads, head % kKvHeads), KvScaleBytes(type),
                static_cast<uint8_t>(kernels::kKvScaleBias));
  }
  return pool;
}

// `num_sequences` sequences, each with `num_new` tokens at the end of `context`.
void BM_PagedAttention(benchmark::State& state) {
  const int64_t num_sequences = state.range(0);
  const int64_t context = state.range(1);
  const int64_t num_new = state.range(2);
  const KvType type = state.range(3) != 0 ? KvType::kFp8 : KvType::kBFloat16;
  Machine machine;
  const int64_t blocks_per_sequence = (context + kKvBlockTokens - 1) / kKvBlockTokens;
  const int64_t num_blocks = blocks_per_sequence * num_sequences;
  std::vector<std::byte> pool = RandomKv(type, num_blocks);
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
                                                    .head_dim = kHeadDim,
                                                    .type = type},
                                             .sequences = sequences,
                                             .num_heads = kHeads,
                                             .scale = 0.125f}));
  }
  const double pairs = static_cast<double>(num_sequences * num_new) *
                       static_cast<double>(2 * context - num_new + 1) / 2.0;
  SetRates(state, pairs * 4.0 * kHeads * kHeadDim,
           static_cast<double>(num_blocks * KvBlockBytes(type, kKvHeads, kHeadDim)));
}
BENCHMARK(BM_PagedAttention)
    ->ArgNames({"sequences", "context", "new", "fp8"})
    ->ArgsProduct({{1}, {512, 4096}, {1, 512}, {0, 1}})
    ->ArgsProduct({{8}, {512, 4096}, {1}, {0, 1}})
    ->ArgsProduct({{32}, {4096}, {1}, {0, 1}})
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
  const KvType type = state.range(1) != 0 ? KvType::kFp8 : KvType::kBFloat16;
  Machine machine;
  const kernels::RopeTable table =
      MakeRopeTable(kernels::ComputeRopeFrequencies({}, kHeadDim), kMaxContext);
  std::vector<BFloat16> qkv = RandomBFloat16s(num_tokens * (kHeads + 2 * kKvHeads) * kHeadDim, 1);
  std::vector<uint32_t> positions(static_cast<size_t>(num_tokens));
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<uint64_t> slots(positions.begin(), positions.end());
  const int64_t num_blocks = num_tokens / kKvBlockTokens + 1;
  std::vector<std::byte> pool(
      static_cast<size_t>(num_blocks * KvBlockBytes(type, kKvHeads, kHeadDim)));
  for (auto _ : state) {
    Expect(RotaryAppend(machine.stream(), {.qkv = qkv.data(),
                                           .cos = table.cos.data(),
                                           .sin = table.sin.data(),
                                           .positions = positions.data(),
                                           .kv_slots = slots.data(),
                                           .kv = {.data = pool.data(),
                                                  .num_blocks = num_blocks,
                                                  .num_kv_heads = kKvHeads,
                                                  .head_dim = kHeadDim,
                                                  .type = type},
                                           .num_heads = kHeads,
                                           .num_tokens = num_tokens}));
  }
  const double elements = static_cast<double>(num_tokens * (kHeads + kKvHeads) * kHeadDim);
  SetRates(state, elements * 3.0, elements * 4.0);
}
BENCHMARK(BM_RotaryAppend)
    ->ArgNames({"tokens", "fp8"})
    ->ArgsProduct({{1, 512}, {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace lockstep::bench
