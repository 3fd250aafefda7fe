#include <climits>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_plan.cuh"
#include "kernels/attention/decode/decode_plan_shared.cuh"
#include "kernels/attention/decode/decode_run_walk.h"
#include "kernels/attention/decode/decode_runs.h"
#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"

// Plans a step in one block, with a thread for each row. First it looks for rows whose block tables
// may begin with the same blocks: it compares the one block that ends at a given depth, for several
// depths, the deepest first. Of the rows with the same block there, the lowest becomes the leader,
// and the others follow it. Then it compares the tables of each row and its leader from the
// beginning. So the result relies on nothing but equal block numbers. Rows with the same leader are
// sorted by how much they have in common with it. As many of them as fill the rows of a matrix
// product become a strand.
namespace lockstep::kernels {
namespace {

struct PlanArguments {
  PagedDecodeAttentionParams params;
  int max_sharing_rows;
  int max_runs;
};

struct StepPlanner {
  __device__ __forceinline__ const BlockId* Table(int row) const {
    return params.block_tables + TableOf(row) * params.block_table_stride;
  }
  __device__ __forceinline__ int TableOf(int row) const {
    return params.block_table_rows == nullptr ? row
                                              : static_cast<int>(params.block_table_rows[row]);
  }

  __device__ __forceinline__ void CountKeys() {
    int keys = 0;
    if (thread < num_rows) {
      const uint32_t position = params.positions[thread];
      keys = position == kNoPosition ? 0 : static_cast<int>(position) + 1;
    }
    shared.num_keys[thread] = keys;
    shared.whole_splits[thread] = keys == 0 ? 0 : LastSplit(keys);
    shared.leader[thread] = thread;
    shared.is_leader[thread] = 0;
    __syncthreads();
  }

  // Returns true if any row follows another.
  __device__ __forceinline__ bool FindLeaders() {
    // How many whole splits 8,192, 4,096, ... 128 keys are.
    constexpr int kSharedDepths[kNumDepths] = {22, 14, 10, 6, 4, 2, 1};
    const int whole_splits = shared.whole_splits[thread];
    uint32_t blocks[kNumDepths];
#pragma unroll
    for (int i = 0; i < kNumDepths; ++i) {
      const int page = AttentionSplitBegin(kSharedDepths[i]) / kKvBlockTokens - 1;
      blocks[i] = whole_splits >= kSharedDepths[i] ? Table(thread)[page] : kNoBlock;
    }
    bool found = false;
    for (int i = 0; i < kNumDepths; ++i) {
      uint32_t block = kNoBlock;  // no index into registers at run time
#pragma unroll
      for (int j = 0; j < kNumDepths; ++j) block = j == i ? blocks[j] : block;
      const bool asks = !found && block != kNoBlock;
      if (__syncthreads_count(asks) < 2) continue;
      for (int cell = thread; cell < kMapSize; cell += kPlanThreads) {
        shared.first_rows.block[cell] = kNoBlock;
        shared.first_rows.row[cell] = INT_MAX;
      }
      __syncthreads();
      uint32_t cell = block * 0x9E3779B1u >> kMapShift;
      if (asks) {
        for (;; cell = (cell + 1) % kMapSize) {
          const uint32_t before = atomicCAS(&shared.first_rows.block[cell], kNoBlock, block);
          if (before == kNoBlock || before == block) break;
        }
        atomicMin(&shared.first_rows.row[cell], thread);
      }
      __syncthreads();
      if (asks && shared.first_rows.row[cell] != thread) {
        shared.leader[thread] = shared.first_rows.row[cell];
        shared.is_leader[shared.leader[thread]] = 1;
        found = true;
      }
      __syncthreads();
      found |= shared.is_leader[thread] != 0;
    }
    return __syncthreads_or(shared.leader[thread] != thread) != 0;
  }

  // Counts the whole splits that each row has in common with its leader, with a warp for each row.
  __device__ __forceinline__ void CompareTables() {
    for (int row = thread / 32; row < num_rows; row += kPlanWarps) {
      const int leader = shared.leader[row];
      int splits = min(shared.whole_splits[row], shared.whole_splits[leader]);
      if (leader != row) {
        const int num_pages = static_cast<int>(AttentionSplitBegin(splits) / kKvBlockTokens);
        const int equal_pages = CountEqual(Table(row), Table(leader), num_pages);
        if (equal_pages < num_pages) splits = SplitOfTile(equal_pages / kKeyTilePages);
      }
      if (thread % 32 == 0) shared.shared_splits[row] = splits;
    }
    __syncthreads();
  }

  __device__ __forceinline__ int CountEqual(const BlockId* one, const BlockId* other,
                                            int num_pages) const {
    for (int base = 0; base < num_pages; base += 32 * kPagesAtOnce) {
      BlockId of_one[kPagesAtOnce] = {};
      BlockId of_other[kPagesAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kPagesAtOnce; ++i) {
        const int page = base + 32 * i + thread % 32;
        if (page >= num_pages) continue;
        of_one[i] = one[page];
        of_other[i] = other[page];
      }
#pragma unroll
      for (int i = 0; i < kPagesAtOnce; ++i) {
        const uint32_t differ = __ballot_sync(0xFFFFFFFFu, of_one[i] != of_other[i]);
        if (differ != 0) return base + 32 * i + __ffs(static_cast<int>(differ)) - 1;
      }
    }
    return num_pages;
  }

  // Sorts the rows by leader, and by how much they have in common with it, and makes groups.
  __device__ __forceinline__ void FormGroups() {
    constexpr int kSplitBits = 11;
    constexpr int kRowBits = 10;
    static_assert(kMaxDecodeRows <= 1 << kRowBits);
    constexpr int kMaxSplits = (1 << kSplitBits) - 1;
    const int leader = shared.leader[thread];
    const int splits = thread < num_rows ? min(shared.shared_splits[thread], kMaxSplits) : 0;
    const int key = ((leader << kSplitBits) + kMaxSplits - splits) << kRowBits | thread;
    __syncthreads();
    shared.leader[thread] = key;
    __syncthreads();
    int place = 0;
    int first_place = 0;
    int num_followers = 0;
    if (thread < num_rows) {
      for (int row = 0; row < num_rows; ++row) {
        const int other = shared.leader[row];
        const int other_leader = other >> (kSplitBits + kRowBits);
        place += other < key;
        first_place += other_leader < leader;
        num_followers += other_leader == leader;
      }
      shared.order[place] = thread;
    }
    __syncthreads();
    const int in_class = place - first_place;
    const int in_group = in_class % max_sharing_rows;
    group_place = place - in_group;
    group_rows = min(max_sharing_rows, num_followers - (in_class - in_group));
    group_splits = 0;
    if (thread < num_rows && group_rows > 1) {
      group_splits = shared.shared_splits[shared.order[group_place + group_rows - 1]];
    }
    if (thread < num_rows) shared.group_number[place] = in_group == 0 && group_splits > 0;
    __syncthreads();
    if (thread < 32) {
      const int sum = CountBefore(shared.group_number, num_rows, thread);
      if (thread == 0) shared.num_groups = sum;
    }
    __syncthreads();
    num_groups = shared.num_groups;
    is_first = group_splits > 0 && in_group == 0;
    if (group_splits > 0) group = shared.group_number[group_place];
  }

  // Counts the tiles before each strand, and the strands.
  __device__ __forceinline__ void CountTiles() {
    if (thread == 0) shared.num_own = 0;
    __syncthreads();
    if (thread < num_groups) shared.no_split[thread] = 0;
    if (is_first) shared.shared_tiles[group] = FirstTileOfSplit(group_splits);
    const int keys = shared.num_keys[thread];
    if (thread < num_rows) {
      const int num_tiles = (keys + static_cast<int>(kKeyTile) - 1) / static_cast<int>(kKeyTile);
      shared.first_split[thread] = group_splits;
      shared.own_tiles[thread] = num_tiles - FirstTileOfSplit(group_splits);
      if (keys > 0) atomicMax(&shared.num_own, thread + 1);
    }
    num_filled = __syncthreads_count(keys > 0);
    if (thread / 32 == 0) SumBefore(shared.own_tiles, shared.num_own, thread);
    if (thread / 32 == 1) SumBefore(shared.shared_tiles, num_groups, thread % 32);
    __syncthreads();
  }

  __device__ __forceinline__ DecodeRuns SharedRuns(const DecodePlan& plan) const {
    return DecodeRuns(shared.shared_tiles, shared.no_split, num_groups, plan);
  }
  __device__ __forceinline__ DecodeRuns OwnRuns(const DecodePlan& plan) const {
    return DecodeRuns(shared.own_tiles, shared.first_split, shared.num_own, plan);
  }

  // Call from two warps.
  __device__ __forceinline__ void ChoosePlans() {
    const bool is_own = thread / 32 == 0;
    const int num_tiles =
        is_own ? shared.own_tiles[shared.num_own] : shared.shared_tiles[num_groups];
    const DecodePlan even = EvenStrandPlan(max(is_own ? num_filled : num_groups, 1), max_runs);
    const DecodeRuns runs = is_own ? OwnRuns(even) : SharedRuns(even);
    // If there are too many tiles, at least one run must be too long. Then no run is checked.
    const int max_tiles = MaxEvenStrandTiles(num_tiles, max_runs);
    bool fits = num_tiles <= even.num_runs * max_tiles;
    for (int run = thread % 32; fits && run < even.num_runs; run += 32) {
      fits &= runs.Tiles(runs.Cut(run + 1)) - runs.Tiles(runs.Cut(run)) <= max_tiles;
    }
    fits = __all_sync(0xFFFFFFFFu, fits);
    const DecodePlan plan = fits ? even : CutStrandPlan(num_tiles, max_runs);
    if (thread % 32 == 0) (is_own ? shared.own_plan : shared.shared_plan) = plan;
  }

  __device__ __forceinline__ void Write() {
    const DecodePlanMemory memory(params.plan, num_rows, max_runs);
    const DecodeRuns shared_runs = SharedRuns(shared.shared_plan);
    const DecodeRuns own_runs = OwnRuns(shared.own_plan);
    if (is_first) {
      const int folded_splits = shared_runs.SplitsOfFirstRun(group);
      shared.folded_splits[group] = folded_splits;
      memory.shared_strands[group] = {.row = group_place,
                                      .num_rows = group_rows,
                                      .num_parts = 0,
                                      .block_table = TableOf(thread),
                                      .num_keys = shared.num_keys[thread],
                                      .first_split = 0,
                                      .num_splits = group_splits,
                                      .folded_splits = folded_splits};
    }
    __syncthreads();
    if (thread < num_rows) WriteOwnStrand(memory, own_runs);
    __syncthreads();
    WriteWalks(memory, shared_runs, own_runs);
    __syncthreads();
    for (int run = thread / 32; run < max_runs; run += kPlanWarps) {
      WriteFirstPages(memory.starts[run]);
    }
  }

  __device__ __forceinline__ void WriteOwnStrand(const DecodePlanMemory& memory,
                                                 const DecodeRuns& own_runs) {
    DecodeStrand strand = {};
    if (shared.num_keys[thread] > 0) {
      const int num_splits = own_runs.NumSplits(thread);
      const int folded_splits =
          group_splits > 0 ? shared.folded_splits[group] : own_runs.SplitsOfFirstRun(thread);
      strand = {.row = thread,
                .num_rows = 1,
                .num_parts = 1 + group_splits + num_splits - folded_splits,
                .block_table = TableOf(thread),
                .num_keys = shared.num_keys[thread],
                .first_split = group_splits,
                .num_splits = num_splits,
                .folded_splits = folded_splits};
    }
    memory.own_strands[thread] = strand;
    memory.num_parts[thread] = strand.num_parts;
    if (num_groups > 0) memory.rows[thread] = shared.order[thread];
  }

  // Longer runs come first: their blocks begin first, and have fetched more keys when the queries
  // are there.
  __device__ __forceinline__ void WriteWalks(const DecodePlanMemory& memory,
                                             const DecodeRuns& shared_runs,
                                             const DecodeRuns& own_runs) {
    const int run = thread;
    DecodeRun of_shared = {memory.shared_strands, {}, {}};
    DecodeRun of_own = {memory.own_strands, {}, {}};
    bool is_longer = false;
    if (run < max_runs) {
      of_shared = {memory.shared_strands, shared_runs.Cut(run), shared_runs.Cut(run + 1)};
      of_own = {memory.own_strands, own_runs.Cut(run), own_runs.Cut(run + 1)};
      const int num_tiles = shared_runs.Tiles(of_shared.end) - shared_runs.Tiles(of_shared.begin) +
                            own_runs.Tiles(of_own.end) - own_runs.Tiles(of_own.begin);
      const int all_tiles = shared.shared_tiles[num_groups] + shared.own_tiles[shared.num_own];
      is_longer = static_cast<uint32_t>(num_tiles) * static_cast<uint32_t>(max_runs) >
                  static_cast<uint32_t>(all_tiles);
      shared.longer_runs[run] = is_longer ? 1 : 0;
    }
    __syncthreads();
    if (thread < 32) {
      const int sum = CountBefore(shared.longer_runs, max_runs, thread);
      if (thread == 0) shared.num_longer_runs = sum;
    }
    __syncthreads();
    if (run >= max_runs) return;
    const int before = shared.longer_runs[run];
    const int place = is_longer ? before : shared.num_longer_runs + run - before;
    memory.starts[place].walk = DecodeRunWalk(of_shared, of_own);
  }

  // Call from a warp.
  __device__ __forceinline__ void WriteFirstPages(DecodeStart& start) const {
    if (start.walk.AtEnd()) return;
    const SplitKeys keys = KeysOf(start.walk);
    const int page = thread % kPagesOfWarp;
    if (page >= keys.NumPages()) return;
    start.pages[page] =
        params.block_tables[start.walk.Strand().block_table * params.block_table_stride +
                            keys.FirstPage() + page];
  }

  const PagedDecodeAttentionParams& params;
  PlanShared& shared;
  int num_rows;
  int max_sharing_rows;
  int max_runs;
  int thread;

  // Of this thread's row.
  int group_place = 0;  // in `order`
  int group_rows = 1;
  int group_splits = 0;  // splits that the rows of its group have in common; 0: it has no group
  int group = 0;
  bool is_first = false;  // in its group
  // Of the step.
  int num_groups = 0;
  int num_filled = 0;  // rows that have keys

 private:
  // Replaces each mark by the number of marks before it, and returns the number of all marks. Call
  // from one warp.
  __device__ __forceinline__ static int CountBefore(int* marks, int size, int lane) {
    int total = 0;
    for (int base = 0; base < size; base += 32) {
      const bool marked = base + lane < size && marks[base + lane] != 0;
      const uint32_t mask = __ballot_sync(0xFFFFFFFFu, marked);
      if (base + lane < size) marks[base + lane] = total + __popc(mask & ((1u << lane) - 1));
      total += __popc(mask);
    }
    return total;
  }
};

__global__ __launch_bounds__(kPlanThreads) void DecodePlanKernel(const PlanArguments arguments) {
  __shared__ PlanShared shared;
  // Everything that is read here was written before the first kernel of the step's layers (see
  // PagedDecodeAttentionParams), so this kernel waits for its predecessor only at its end. It lets
  // no successor start before that, because successors read the plan at once.
  StepPlanner planner = {.params = arguments.params,
                         .shared = shared,
                         .num_rows = static_cast<int>(arguments.params.num_rows),
                         .max_sharing_rows = arguments.max_sharing_rows,
                         .max_runs = arguments.max_runs,
                         .thread = static_cast<int>(threadIdx.x)};
  planner.CountKeys();
  if (arguments.max_sharing_rows > 1 && planner.FindLeaders()) {
    planner.CompareTables();
    planner.FormGroups();
  }
  planner.CountTiles();
  if (threadIdx.x < 64) planner.ChoosePlans();
  __syncthreads();
  planner.Write();
  ptx::WaitForPredecessor();
}

}  // namespace

absl::Status LaunchDecodePlan(const CudaStream& stream, const PagedDecodeAttentionParams& params,
                              int max_runs) {
  return Launch(
      stream, "plan of decode attention", {.grid = dim3(1), .block = dim3(kPlanThreads)},
      DecodePlanKernel,
      PlanArguments{
          .params = params, .max_sharing_rows = MaxSharingRows(params), .max_runs = max_runs});
}

}  // namespace lockstep::kernels
