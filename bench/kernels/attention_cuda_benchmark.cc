// Times the CUDA attention kernels on the shapes of an 8B model (32 query heads, 8 KV heads of 128)
// in CUDA graphs and prints one JSON object per shape. Decode reads K and V from device memory:
// calls of a graph rotate through enough of the pool that the second-level cache holds none of it.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/device_operands.h"
#include "bench/kernels/time_in_graph.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/kv_cache/device_paged_kv.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNumHeads = 32;
constexpr int64_t kNumKvHeads = 8;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kRowElements = kNumHeads * kHeadDim;
constexpr int64_t kRotationBytes = int64_t{200} << 20;  // more than three times the cache
constexpr int64_t kPoolBlocks = 8192;
constexpr int kMinCallsPerGraph = 20;
constexpr double kReadCeilingBytesPerUs = 4.54e6;
constexpr double kMatrixCeilingFlopsPerUs = 795e6;

// A pool of `num_heads` heads of a block each. Codes are random, and their scales 2^-7.
DeviceBuffer PoolOnDevice(KvType type, int64_t num_heads, int64_t head_dim) {
  const int64_t head_bytes = DeviceKvHeadBytes(type, head_dim);
  DeviceBuffer pool = RandomOnDevice(num_heads * head_bytes / 2);
  if (type == KvType::kFp8) {
    constexpr int kScale = 240;
    Check(cudaMemset2D(pool.data() + DeviceKvHeadElements(head_dim),
                       static_cast<size_t>(head_bytes), kScale,
                       static_cast<size_t>(KvScaleBytes(type)), static_cast<size_t>(num_heads)));
  }
  return pool;
}

struct DecodeCase {
  std::string name;
  std::vector<int64_t> contexts;  // of its rows
  // Row i begins with the blocks of prefix i modulo num_prefixes.
  int64_t num_prefixes = 0;
  int64_t prefix_tokens = 0;
  // 0: each call reads blocks of its own. Otherwise a call for each layer of a pool reads the same
  // blocks: all blocks of a layer lie together, or all layers of a block (block-major).
  int64_t num_layers = 0;
  bool block_major = false;
  KvType type = KvType::kBFloat16;
};

// For calls that rotate through `num_sets`: a table for each row of each set.
std::vector<BlockId> DecodeTables(const DecodeCase& decode, int64_t num_sets,
                                  int64_t blocks_per_row) {
  const int64_t batch = std::ssize(decode.contexts);
  std::vector<BlockId> tables = ShuffledBlocks(num_sets * batch * blocks_per_row);
  if (decode.num_prefixes == 0) return tables;
  for (int64_t row = 0; row < num_sets * batch; ++row) {
    const int64_t set = row / batch;
    const int64_t first = set * batch + row % batch % decode.num_prefixes;
    std::copy_n(tables.begin() + first * blocks_per_row, decode.prefix_tokens / kKvBlockTokens,
                tables.begin() + row * blocks_per_row);
  }
  return tables;
}

struct DecodeSizes {
  explicit DecodeSizes(const DecodeCase& decode)
      : batch(std::ssize(decode.contexts)),
        context(*std::max_element(decode.contexts.begin(), decode.contexts.end())),
        blocks_per_row((context + kKvBlockTokens - 1) / kKvBlockTokens),
        has_layers(decode.num_layers > 0) {
    const int64_t num_keys =
        std::accumulate(decode.contexts.begin(), decode.contexts.end(), int64_t{0});
    block_bytes = kNumKvHeads * DeviceKvHeadBytes(decode.type, kHeadDim);
    kv_bytes = num_keys * block_bytes / kKvBlockTokens;
    num_sets = has_layers ? decode.num_layers : kRotationBytes / kv_bytes + 1;
    num_tables = has_layers ? 1 : num_sets;
    layer_blocks = has_layers ? std::max(kPoolBlocks, batch * blocks_per_row) : 0;
    layer_stride = decode.block_major ? 1 : layer_blocks;
    num_blocks = has_layers ? num_sets * layer_blocks : num_sets * batch * blocks_per_row;
    plan_elements = (DecodePlanElements(batch) + 7) / 8 * 8;
  }

  int64_t batch;
  int64_t context;  // the longest
  int64_t blocks_per_row;
  bool has_layers;
  int64_t block_bytes = 0;
  int64_t kv_bytes = 0;  // that a call reads
  int64_t num_sets = 0;
  int64_t num_tables = 0;
  int64_t layer_blocks = 0;  // of a pool of layers a call reads some blocks anywhere
  int64_t layer_stride = 0;  // in blocks of one layer
  int64_t num_blocks = 0;
  // A plan holds numbers of blocks, so each set has its own. They are aligned to 32 bytes.
  int64_t plan_elements = 0;
};

std::vector<BlockId> DecodeBlocks(const DecodeCase& decode, const DecodeSizes& sizes) {
  std::vector<BlockId> tables = sizes.has_layers
                                    ? ShuffledBlocks(sizes.layer_blocks)
                                    : DecodeTables(decode, sizes.num_tables, sizes.blocks_per_row);
  if (decode.block_major) {
    for (BlockId& block : tables) block *= static_cast<BlockId>(decode.num_layers);
  }
  return tables;
}

std::vector<uint32_t> LastPositions(const DecodeCase& decode) {
  std::vector<uint32_t> positions;
  for (const int64_t keys : decode.contexts) positions.push_back(static_cast<uint32_t>(keys - 1));
  return positions;
}

// What calls of a case read and write. They rotate through the sets.
class DecodeOperands {
 public:
  DecodeOperands(const DecodeCase& decode, const DecodeSizes& sizes)
      : sizes_(sizes),
        may_share_(decode.num_prefixes > 0),
        type_(decode.type),
        pool_(PoolOnDevice(decode.type, sizes.num_blocks * kNumKvHeads, kHeadDim)),
        query_(RandomOnDevice(sizes.batch * kRowElements)),
        output_(Allocate(static_cast<size_t>(sizes.batch * kRowElements) * 2)),
        tables_(Upload(DecodeBlocks(decode, sizes))),
        positions_(Upload(LastPositions(decode))),
        partials_(Allocate(static_cast<size_t>(DecodePartialElements(
                               sizes.batch, kNumHeads, kNumKvHeads, kHeadDim, sizes.context)) *
                           sizeof(float))),
        arrivals_(Upload(std::vector<uint32_t>(
            static_cast<size_t>(DecodeArrivalElements(sizes.batch, kNumKvHeads)), 0))),
        plans_(
            Allocate(static_cast<size_t>(sizes.num_sets * sizes.plan_elements) * sizeof(int32_t))) {
  }

  PagedDecodeAttentionParams Params(int call) const {
    const int64_t set = call % sizes_.num_sets;
    return {.query = query_.data<BFloat16>(),
            .query_stride = kRowElements,
            .output = output_.data<BFloat16>(),
            .output_stride = kRowElements,
            .kv = {pool_.data() +
                       (sizes_.has_layers ? set * sizes_.layer_stride * sizes_.block_bytes : 0),
                   sizes_.num_blocks, kNumKvHeads, kHeadDim, type_},
            .num_heads = kNumHeads,
            .scale = 0.088388f,
            .num_rows = sizes_.batch,
            .positions = positions_.data<uint32_t>(),
            .block_tables = tables_.data<BlockId>() +
                            call % sizes_.num_tables * sizes_.batch * sizes_.blocks_per_row,
            .block_table_stride = sizes_.blocks_per_row,
            .max_keys = sizes_.context,
            .may_share = may_share_,
            .plan = plans_.data<int32_t>() + set * sizes_.plan_elements,
            .partials = partials_.data<float>(),
            .arrivals = arrivals_.data<uint32_t>()};
  }

 private:
  const DecodeSizes sizes_;
  const bool may_share_;
  const KvType type_;
  const DeviceBuffer pool_;
  const DeviceBuffer query_;
  const DeviceBuffer output_;
  const DeviceBuffer tables_;
  const DeviceBuffer positions_;
  const DeviceBuffer partials_;
  const DeviceBuffer arrivals_;
  const DeviceBuffer plans_;
};

void BenchmarkDecode(CudaStream stream, const DecodeCase& decode) {
  const DecodeSizes sizes(decode);
  const int num_calls = std::max(kMinCallsPerGraph, static_cast<int>(sizes.num_sets));
  const DecodeOperands operands(decode, sizes);
  stream.overlap_launches = false;
  for (int set = 0; set < sizes.num_sets; ++set) {
    Check(PlanPagedDecode(stream, operands.Params(set)));
  }
  const double plan_us = TimeInGraph(
      stream, kMinCallsPerGraph, [&](int) { return PlanPagedDecode(stream, operands.Params(0)); });
  double us[2];
  for (const bool overlap : {false, true}) {
    stream.overlap_launches = overlap;
    us[overlap] = TimeInGraph(stream, num_calls, [&](int call) {
      return PagedDecodeAttention(stream, operands.Params(call));
    });
  }
  const auto kv_bytes = static_cast<double>(sizes.kv_bytes);
  fmt::print(
      "{{\"case\": \"{}\", \"unit\": \"us\", \"median\": {:.2f}, \"us_overlapped\": {:.2f}, "
      "\"us_plan\": {:.2f}, \"tb_per_s\": {:.2f}, \"of_read_ceiling\": {:.3f}}}\n",
      decode.name, us[0], us[1], plan_us, kv_bytes / us[0] / 1e6,
      kv_bytes / us[0] / kReadCeilingBytesPerUs);
}

// Chunks of sequences that have nothing else in common, all prefilled by one call.
struct PrefillCase {
  std::string name;
  std::vector<AttentionChunk> chunks;  // first_position and num_tokens; the rest is filled in
  int64_t head_dim = kHeadDim;
  int64_t num_kv_heads = kNumKvHeads;
  KvType type = KvType::kBFloat16;
};

void BenchmarkPrefill(const CudaStream& stream, PrefillCase prefill) {
  const int64_t row_elements = kNumHeads * prefill.head_dim;
  int64_t num_tokens = 0;
  int64_t num_blocks = 0;
  int64_t max_blocks = 0;
  double flops = 0.0;
  for (size_t i = 0; i < prefill.chunks.size(); ++i) {
    AttentionChunk& chunk = prefill.chunks[i];
    chunk.first_token = static_cast<uint32_t>(num_tokens);
    chunk.block_table_row = static_cast<uint32_t>(i);
    const int64_t end = int64_t{chunk.first_position} + chunk.num_tokens;
    const double mean_keys = static_cast<double>(chunk.first_position + 1 + end) / 2;
    flops += 4.0 * chunk.num_tokens * mean_keys * static_cast<double>(row_elements);
    num_tokens += chunk.num_tokens;
    max_blocks = std::max(max_blocks, (end + kKvBlockTokens - 1) / kKvBlockTokens);
  }
  num_blocks = max_blocks * std::ssize(prefill.chunks);
  const PrefillPlanner planner(kNumHeads, prefill.num_kv_heads, prefill.head_dim,
                               stream.num_multiprocessors);
  std::vector<PrefillTile> tiles(
      static_cast<size_t>(planner.MaxTiles(num_tokens, std::ssize(prefill.chunks))));
  const PrefillPlan plan = planner.Plan(prefill.chunks, tiles);
  const DeviceBuffer pool =
      PoolOnDevice(prefill.type, num_blocks * prefill.num_kv_heads, prefill.head_dim);
  const DeviceBuffer query = RandomOnDevice(num_tokens * row_elements);
  const DeviceBuffer output = Allocate(static_cast<size_t>(num_tokens * row_elements) * 2);
  const DeviceBuffer tables = Upload(ShuffledBlocks(num_blocks));
  const DeviceBuffer chunks = Upload(prefill.chunks);
  const DeviceBuffer device_tiles = Upload(tiles);
  const DeviceBuffer scratch =
      Allocate(static_cast<size_t>(planner.ScratchElements()) * sizeof(float));
  const double us = TimeInGraph(stream, kMinCallsPerGraph, [&](int) {
    return PagedPrefillAttention(stream, {.query = query.data<BFloat16>(),
                                          .query_stride = row_elements,
                                          .output = output.data<BFloat16>(),
                                          .output_stride = row_elements,
                                          .kv = {pool.data(), num_blocks, prefill.num_kv_heads,
                                                 prefill.head_dim, prefill.type},
                                          .num_heads = kNumHeads,
                                          .scale = 0.088388f,
                                          .chunks = chunks.data<AttentionChunk>(),
                                          .tiles = device_tiles.data<PrefillTile>(),
                                          .num_tiles = plan.num_tiles,
                                          .tile_rows = plan.tile_rows,
                                          .block_tables = tables.data<BlockId>(),
                                          .block_table_stride = max_blocks,
                                          .scratch = scratch.data<float>()});
  });
  fmt::print(
      "{{\"case\": \"{}\", \"unit\": \"us\", \"median\": {:.2f}, \"tile_rows\": {}, "
      "\"tflops\": {:.1f}, \"of_matrix_ceiling\": {:.3f}}}\n",
      prefill.name, us, plan.tile_rows, flops / us / 1e6, flops / us / kMatrixCeilingFlopsPerUs);
}

std::vector<PrefillCase> PrefillCases() {
  std::vector<PrefillCase> cases;
  for (const uint32_t num_tokens : {1024u, 2048u, 4096u, 8192u, 16384u}) {
    cases.push_back(
        {.name = fmt::format("prefill:{}", num_tokens), .chunks = {{.num_tokens = num_tokens}}});
  }
  for (const int64_t head_dim : {64, 256}) {
    for (const uint32_t num_tokens : {1024u, 4096u, 16384u}) {
      cases.push_back({.name = fmt::format("prefill_d{}:{}", head_dim, num_tokens),
                       .chunks = {{.num_tokens = num_tokens}},
                       .head_dim = head_dim});
    }
  }
  // A prompt of 8,192 tokens, nine tenths of which are cached.
  cases.push_back(
      {.name = "prefill_cached:8192", .chunks = {{.num_tokens = 819, .first_position = 7373}}});
  // 32 chunks of equal and of very different length.
  cases.push_back({.name = "prefill_uniform:32x512",
                   .chunks = std::vector<AttentionChunk>(32, {.num_tokens = 512})});
  cases.push_back({.name = "prefill_ragged:32", .chunks = {{.num_tokens = 8192}}});
  for (uint32_t i = 1; i < 32; ++i) {
    cases.back().chunks.push_back({.num_tokens = 16 * i + 9});
  }
  for (const int64_t head_dim : {64, 128, 256}) {
    for (const uint32_t num_tokens : {1024u, 2048u, 4096u, 16384u}) {
      cases.push_back({.name = fmt::format("prefill_fp8_d{}:{}", head_dim, num_tokens),
                       .chunks = {{.num_tokens = num_tokens}},
                       .head_dim = head_dim,
                       .type = KvType::kFp8});
    }
  }
  return cases;
}

std::vector<DecodeCase> DecodeCases() {
  std::vector<DecodeCase> cases;
  const auto add = [&](size_t batch, int64_t context) {
    cases.push_back({.name = fmt::format("paged_decode:{}x{}", batch, context),
                     .contexts = std::vector<int64_t>(batch, context)});
  };
  for (const int64_t context : {512, 2048, 8192}) add(1, context);
  add(8, 512);
  for (const int64_t context : {512, 2048}) add(32, context);
  for (const int64_t context : {512, 2048, 8192}) add(128, context);
  for (const auto& [batch, context] : {std::pair<size_t, int64_t>(1, 2048),
                                       {1, 8192},
                                       {8, 512},
                                       {32, 2048},
                                       {128, 2048},
                                       {128, 8192}}) {
    add(batch, context);
    cases.back().name = fmt::format("paged_decode_fp8:{}x{}", batch, context);
    cases.back().type = KvType::kFp8;
  }
  // Prompts that begin alike: one prefix for each 8 streams, and one for all.
  cases.push_back({.name = "paged_decode_shared:64x2240",
                   .contexts = std::vector<int64_t>(64, 2240),
                   .num_prefixes = 8,
                   .prefix_tokens = 2048});
  cases.push_back({.name = "paged_decode_shared:128x2240",
                   .contexts = std::vector<int64_t>(128, 2240),
                   .num_prefixes = 1,
                   .prefix_tokens = 2048});
  add(64, 2240);
  // 256 to 768 tokens each, as requests of a server have.
  cases.push_back({.name = "paged_decode_ragged:128", .contexts = {}});
  for (int64_t i = 0; i < 128; ++i) cases.back().contexts.push_back(256 + i * 37 % 513);
  // Both orders of a pool of 36 layers.
  for (const auto& [batch, context] :
       {std::pair<size_t, int64_t>(1, 8192), {8, 2048}, {32, 2048}, {128, 512}, {128, 2048}}) {
    for (const bool block_major : {false, true}) {
      add(batch, context);
      cases.back().name = fmt::format("paged_decode_{}_major:{}x{}",
                                      block_major ? "block" : "layer", batch, context);
      cases.back().num_layers = 36;
      cases.back().block_major = block_major;
    }
  }
  return cases;
}

// Only cases whose name contains `filter`.
int Run(std::string_view filter) {
  const absl::StatusOr<CudaDevice> device = DescribeCudaDevice(0);
  if (!device.ok()) {
    fmt::print(stderr, "{}\n", Message(device.status()));
    return 1;
  }
  CudaStream stream = {.num_multiprocessors = device->num_multiprocessors};
  Check(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking));
  for (const DecodeCase& decode : DecodeCases()) {
    if (decode.name.find(filter) != std::string::npos) BenchmarkDecode(stream, decode);
  }
  for (const PrefillCase& prefill : PrefillCases()) {
    if (prefill.name.find(filter) != std::string::npos) BenchmarkPrefill(stream, prefill);
  }
  Check(cudaStreamDestroy(stream.handle));
  return 0;
}

}  // namespace
}  // namespace lockstep::kernels

int main(int argc, char** argv) { return lockstep::kernels::Run(argc > 1 ? argv[1] : ""); }
