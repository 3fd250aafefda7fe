#pragma once

#include <cstdint>

#include "kernels/attention/prefill/prefill_block.cuh"
#include "kernels/core/ptx/warpgroup_mma_registers.cuh"

// The warpgroups of a prefill block that compute.
namespace lockstep::kernels {

// A warpgroup's 64 rows; 16 of them belong to each warp. Accumulators are [n][4], as m16n8k16
// leaves them for columns 8n ...
template <int kHeadDim, int kGroups>
class PrefillGroup {
 public:
  using B = PrefillBlock<kHeadDim, kGroups>;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr bool kQueriesInRegisters = B::kRegisterSteps == kSteps;
  static constexpr int kTiles = kHeadDim / 8;
  static constexpr int kSharedClosedTiles = B::kSharedClosedDims / 8;

  __device__ __forceinline__ PrefillGroup(const PrefillArguments& arguments, unsigned char* shared,
                                          int warp, int lane)
      : arguments_(arguments),
        shared_(shared),
        address_(ptx::SharedAddress(shared)),
        warp_(warp),
        group_(warp / 4),
        lane_(lane),
        turn_phase_(group_ == 0 ? 1 : 0) {}

  __device__ __forceinline__ void Run() {
    PrefillItemWalk walk;
    for (int item = walk.Next(); item < arguments_.num_items; item = walk.Next()) {
      ptx::WaitBarrier(address_ + B::kQueriesFull + B::QueryBarrier(QueryStage(), group_),
                       item_.phase);
      ptx::FenceAsyncProxy();  // matrix products read the queries, and ordinary copies wrote them
      rows_ = *reinterpret_cast<const RowTile*>(shared_ + B::ItemOffset(QueryStage(), group_));
#pragma unroll
      for (int step = 0; step < B::kRegisterSteps; ++step) {
        const int row = warp_ * kPrefillWarpRows + lane_ % 16;
        ptx::LoadMatrixX4(queries_[step],
                          address_ + B::QueryOffset(QueryStage(), row, 2 * step + lane_ / 16));
      }
      if (kQueriesInRegisters) {
        ReleaseQueries();
      } else {
        __syncwarp();  // ReleaseScored releases them for the whole warp
      }
      Attend();
      item_.Advance(B::kQueryStages);
    }
  }

 private:
  // Whose turn it is to issue products. The first warpgroup has the fewest tiles. For all of these
  // but the first tile, the warpgroups with rows take turns. Between items it is always the first
  // one's turn.
  struct Turns {
    int tiles;  // of the first warpgroup, which has the fewest
    int next_group;
  };

  // What happens to the output before the values of the next tile are added.
  enum class Before { kNothing, kRescale, kClose };

  __device__ __forceinline__ void Attend() {
    const int num_tiles = (rows_.num_keys + kKeyTile - 1) / kKeyTile;
    const int first_row = group_ * kGroupRows;
    int tiles = 0;  // tiles that some row of the warpgroup attends to
    if (first_row < rows_.num_rows) {
      const int last_row = min(first_row + kGroupRows, rows_.num_rows) - 1;
      const int full_tiles = (rows_.Position(first_row, arguments_.group) + 1) / kKeyTile;
      tiles = rows_.Position(last_row, arguments_.group) / kKeyTile + 1;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Rows that do not exist do what the last one does, and are not written.
        positions_[half] = rows_.Position(min(Row(half), last_row), arguments_.group);
      }
      split_ = 0;
      next_border_ = static_cast<int>(AttentionSplitBegin(1));
      const int first_groups_last = min(kGroupRows, rows_.num_rows) - 1;
      const int tiles_of_first = rows_.Position(first_groups_last, arguments_.group) / kKeyTile + 1;
      const Turns turns = {.tiles = tiles_of_first,
                           .next_group = first_row + kGroupRows < rows_.num_rows ? group_ + 1 : 0};
      Begin(full_tiles, tiles);
      int tile = 1;
      for (; tile < min(full_tiles, tiles); ++tile) Step<false>(tile, tiles, turns);
      for (; tile < tiles; ++tile) Step<true>(tile, tiles, turns);
    }
    if (!kQueriesInRegisters && tiles == 0) ReleaseQueries();
    if (tiles > 0) Finish();
    // Tiles that only other warpgroups need. This one waits for them and releases them, so that it
    // stays in step with the rings.
    for (int tile = tiles; tile < num_tiles; ++tile) {
      AwaitKeys();
      ReleaseKeys();
      AwaitValues();
      ReleaseValues();
    }
  }

  // Computes the weights of the first key tile.
  __device__ __forceinline__ void Begin(int full_tiles, int tiles) {
    AwaitKeys();
    ptx::WarpgroupFence();
    IssueScores();
    ptx::WarpgroupWait<0>();
    ptx::HoldTiles(scores_);
    ReleaseScored(tiles == 1);
    if (full_tiles == 0) MaskScores(0, positions_, lane_, scores_);
    open_[0] = open_[1] = SoftmaxRow();
    WeighScores<2>(arguments_.exponent_scale, scores_, open_, rescale_);
    PackWeights<2>(scores_, weights_);
    before_ = Before::kNothing;
  }

  // Adds the values of the previous tile, and computes the weights of this one.
  template <bool kMasked>
  __device__ __forceinline__ void Step(int tile, int tiles, const Turns& turns) {
    if (before_ == Before::kRescale) Rescale(rescale_, output_);
    if (!B::kClosedInRegisters && before_ == Before::kClose) Close();
    AwaitKeys();
    AwaitValues();
    if (B::kTurns && tile < turns.tiles) AwaitTurn();
    ptx::WarpgroupFence();
    IssueScores();
    if (B::kClosedInRegisters) {
      if (before_ == Before::kClose) Close();
      ptx::WarpgroupFence();  // on both paths: ptxas would put one of its own there (C7519)
    }
    IssueValues();
    if (B::kTurns) PassTurn(turns.next_group, tile < turns.tiles);
    ptx::WarpgroupWait<1>();
    ptx::HoldTiles(scores_);
    ReleaseScored(tile + 1 == tiles);
    const int key = tile * static_cast<int>(kKeyTile);
    const bool border = key == next_border_;
    if (border) {
      closing_ = Spread(open_);
      open_[0] = open_[1] = SoftmaxRow();
    }
    if (kMasked) MaskScores(key, positions_, lane_, scores_);
    WeighScores<2>(arguments_.exponent_scale, scores_, open_, rescale_);
    FinishSoftmax();
    ptx::WarpgroupWait<0>();
    ptx::HoldTiles(output_);
    ptx::HoldOperand(weights_);
    ReleaseValues();
    PackWeights<2>(scores_, weights_);
    before_ = border ? Before::kClose : Before::kRescale;
  }

  // Adds the values of the last tile, and writes the result.
  __device__ __forceinline__ void Finish() {
    PrepareOutput();
    AwaitValues();
    ptx::WarpgroupFence();
    IssueValues();
    ptx::WarpgroupWait<0>();
    ptx::HoldTiles(output_);
    ptx::HoldOperand(weights_);
    ReleaseValues();
    float sums[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) sums[half] = SumOverQuad(open_[half].sum);
    if (split_ > 0) {
      SoftmaxRow closed[2];
      Gather(closed_, closed);
      const PartialFold folds[2] = {
          PartialFold(closed[0].reference, open_[0].reference, arguments_.exponent_scale),
          PartialFold(closed[1].reference, open_[1].reference, arguments_.exponent_scale)};
#pragma unroll
      for (int half = 0; half < 2; ++half) sums[half] = folds[half](closed[half].sum, sums[half]);
      ForClosed([&](int n, float4 closed_tile) {
        const float4 folded = FoldTile<false>(folds, closed_tile, output_[n]);
        output_[n][0] = folded.x;
        output_[n][1] = folded.y;
        output_[n][2] = folded.z;
        output_[n][3] = folded.w;
      });
    }
    Write(sums);
  }

  // Releases what the scores of a tile were made from: its keys and, after the last tile, the
  // queries.
  __device__ __forceinline__ void ReleaseScored(bool last) {
    if constexpr (B::kRegisterSteps > 0) ptx::HoldOperand(queries_);
    ReleaseKeys();
    if (!kQueriesInRegisters) {
      ptx::ArriveIf(address_ + B::kQueriesEmpty + B::QueryBarrier(QueryStage(), group_),
                    lane_ == 0 && last);
    }
  }

  // scores = queries times the keys of the tile.
  __device__ __forceinline__ void IssueScores() {
    const uint64_t keys = ptx::MatrixDescriptor(address_ + B::kKeys) +
                          keys_.stage * (B::kTileBytes / kDescriptorUnit);
    const uint64_t queries =
        ptx::MatrixDescriptor(address_ + B::kQueries + group_ * B::kPanels * kPanelQueryBytes) +
        QueryStage() * (B::kQueryBytes / kDescriptorUnit);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int panel = step / kPanelSteps;
      const uint64_t offset = step % kPanelSteps * ptx::kDescriptorStepK16;
      const uint64_t step_keys = keys + panel * (kPanelKeyBytes / kDescriptorUnit) + offset;
      if (step < B::kRegisterSteps) {
        ptx::WarpgroupMmaRegisters<false>(scores_, queries_[step], step_keys, step != 0);
      } else {
        ptx::WarpgroupMmaShared(scores_,
                                queries + panel * (kPanelQueryBytes / kDescriptorUnit) + offset,
                                step_keys, step != 0);
      }
    }
    ptx::WarpgroupCommit();
  }

  // output += weights times the values of the tile; at the start and after a border, the output
  // begins at zero.
  __device__ __forceinline__ void IssueValues() {
    const uint64_t values =
        ptx::TransposedMatrixDescriptor(address_ + B::kValues, kPanelPageBytes) +
        values_.stage * (B::kTileBytes / kDescriptorUnit);
#pragma unroll
    for (int page = 0; page < kKeyTilePages; ++page) {
      ptx::WarpgroupMmaRegisters<true>(
          output_, weights_[page], values + page * (B::kPanels * kPanelPageBytes / kDescriptorUnit),
          page != 0 || before_ == Before::kRescale);
    }
    ptx::WarpgroupCommit();
  }

  // Makes the output ready for the last tile's values.
  __device__ __forceinline__ void PrepareOutput() {
    if (before_ == Before::kClose) {
      Close();
    } else if (before_ == Before::kRescale) {
      Rescale(rescale_, output_);
    }
  }

  __device__ __forceinline__ void AwaitTurn() {
    ptx::WaitBarrier(address_ + B::kTurn + 8 * group_, turn_phase_);
    turn_phase_ ^= 1;
  }
  __device__ __forceinline__ void PassTurn(int next_group, bool passes) const {
    ptx::ArriveIf(address_ + B::kTurn + 8 * next_group, lane_ == 0 && passes);
  }

  // Folds the output of the split that a border ended into the output of the splits before it.
  // Every row has keys in the ended split, because a split is longer than the distance between rows
  // of a warpgroup.
  __device__ __forceinline__ void Close() {
    if (split_ == 0) {
      closed_ = closing_;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        WriteClosed(n, make_float4(output_[n][0], output_[n][1], output_[n][2], output_[n][3]));
      }
    } else {
      SoftmaxRow closed[2];
      SoftmaxRow closing[2];
      Gather(closed_, closed);
      Gather(closing_, closing);
      const PartialFold folds[2] = {
          PartialFold(closed[0].reference, closing[0].reference, arguments_.exponent_scale),
          PartialFold(closed[1].reference, closing[1].reference, arguments_.exponent_scale)};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        closed[half] = {folds[half].reference, folds[half](closed[half].sum, closing[half].sum)};
      }
      closed_ = SpreadSummed(closed);
      ForClosed([&](int n, float4 closed_tile) {
        WriteClosed(n, FoldTile<true>(folds, closed_tile, output_[n]));
      });
    }
    next_border_ = static_cast<int>(AttentionSplitBegin(++split_ + 1));
  }

  template <bool kFull>
  __device__ __forceinline__ static float4 FoldTile(const PartialFold (&folds)[2], float4 closed,
                                                    const float (&open)[4]) {
    return make_float4(folds[0].template Fold<kFull>(closed.x, open[0]),
                       folds[0].template Fold<kFull>(closed.y, open[1]),
                       folds[1].template Fold<kFull>(closed.z, open[2]),
                       folds[1].template Fold<kFull>(closed.w, open[3]));
  }

  // Keeps two rows' references and sums in one register of each lane of a quad. All four lanes know
  // them. Lanes 0 and 1 keep the reference and sum of row g, lanes 2 and 3 those of row g + 8.
  __device__ __forceinline__ float SpreadSummed(const SoftmaxRow (&rows)[2]) const {
    const float first = lane_ % 2 == 0 ? rows[0].reference : rows[0].sum;
    const float second = lane_ % 2 == 0 ? rows[1].reference : rows[1].sum;
    return lane_ % 4 < 2 ? first : second;
  }
  // The same for sums that are still spread over the quad.
  __device__ __forceinline__ float Spread(const SoftmaxRow (&rows)[2]) const {
    return SpreadSummed({{rows[0].reference, SumOverQuad(rows[0].sum)},
                         {rows[1].reference, SumOverQuad(rows[1].sum)}});
  }
  __device__ __forceinline__ static void Gather(float spread, SoftmaxRow (&rows)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = {__shfl_sync(0xFFFFFFFFu, spread, 2 * half, 4),
                    __shfl_sync(0xFFFFFFFFu, spread, 2 * half + 1, 4)};
    }
  }

  // Columns 8n .. of the closed partial result, in this thread's own place in memory.
  __device__ __forceinline__ float4& Closed(int n) const {
    if (n < kSharedClosedTiles) {
      return reinterpret_cast<float4*>(shared_ + B::kClosed)[n * B::kComputeThreads + threadIdx.x];
    }
    const int tile = blockIdx.x * (kTiles - kSharedClosedTiles) + n - kSharedClosedTiles;
    return reinterpret_cast<float4*>(
        arguments_.params.scratch)[tile * B::kComputeThreads + threadIdx.x];
  }

  __device__ __forceinline__ float4 ReadClosed(int n) const {
    if constexpr (B::kClosedInRegisters) {
      return make_float4(kept_[n][0], kept_[n][1], kept_[n][2], kept_[n][3]);
    } else {
      return Closed(n);
    }
  }
  __device__ __forceinline__ void WriteClosed(int n, float4 closed) {
    if constexpr (B::kClosedInRegisters) {
      kept_[n][0] = closed.x;
      kept_[n][1] = closed.y;
      kept_[n][2] = closed.z;
      kept_[n][3] = closed.w;
    } else {
      Closed(n) = closed;
    }
  }

  // Calls body(n, ReadClosed(n)) for all n. With scratch, loads eight at once. The registers of the
  // scores are free here and hold them.
  template <typename Body>
  __device__ __forceinline__ void ForClosed(const Body& body) const {
    constexpr int kBatch = B::kClosedInRegisters || kSharedClosedTiles == kTiles ? 1 : 8;
    static_assert(kTiles % kBatch == 0 && kSharedClosedTiles % kBatch == 0);
#pragma unroll
    for (int first = 0; first < kTiles; first += kBatch) {
      float4 batch[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) batch[i] = ReadClosed(first + i);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) body(first + i, batch[i]);
    }
  }

  // Lanes of a quad exchange pairs of columns, so that each stores 16 bytes at once.
  __device__ __forceinline__ void Write(const float (&sums)[2]) {
    const int t = lane_ % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float reciprocal = __frcp_rn(sums[half]);
      BFloat16* const output = arguments_.params.output +
                               RowOffset(arguments_, rows_, min(Row(half), rows_.num_rows - 1),
                                         arguments_.params.output_stride);
#pragma unroll
      for (int n = 0; n < kTiles; n += 4) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          pairs[i] = FinishPair(output_[n + i][2 * half], output_[n + i][2 * half + 1], reciprocal);
        }
        TransposeQuad(pairs, t);
        if (Row(half) < rows_.num_rows) {
          *reinterpret_cast<uint4*>(output + 8 * (n + t)) =
              make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
      }
    }
  }

  // Transposes a 4 x 4 matrix over the lanes of a quad: element i of lane t becomes what was
  // element t of lane i.
  __device__ __forceinline__ static void TransposeQuad(uint32_t (&pairs)[4], int t) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
      const bool upper = (t & distance) != 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & distance) != 0) continue;
        const uint32_t sent = upper ? pairs[i] : pairs[i + distance];
        const uint32_t received = __shfl_xor_sync(0xFFFFFFFFu, sent, distance);
        pairs[i] = upper ? received : pairs[i];
        pairs[i + distance] = upper ? pairs[i + distance] : received;
      }
    }
  }

  // The number in the tile of the warp's row g (half = 0) or g + 8 (half = 1).
  __device__ __forceinline__ int Row(int half) const {
    return warp_ * kPrefillWarpRows + lane_ / 4 + 8 * half;
  }

  __device__ __forceinline__ int QueryStage() const {
    return B::kQueryStages == 1 ? 0 : item_.stage;
  }
  __device__ __forceinline__ void ReleaseQueries() const {
    __syncwarp();
    ptx::ArriveIf(address_ + B::kQueriesEmpty + B::QueryBarrier(QueryStage(), group_), lane_ == 0);
  }
  __device__ __forceinline__ void AwaitKeys() const {
    ptx::WaitBarrier(address_ + B::kKeysFull + 8 * keys_.stage, keys_.phase);
  }
  __device__ __forceinline__ void ReleaseKeys() {
    ptx::ArriveIf(address_ + B::kKeysEmpty + 8 * keys_.stage, lane_ == 0);
    keys_.Advance(B::kKeyStages);
  }
  // The softmax must run while the values are being multiplied, but ptxas would move it after the
  // wait for them. It moves no arrival across that wait. So this arrival depends on the sums of the
  // softmax. It never happens, because sums are not negative.
  __device__ __forceinline__ void FinishSoftmax() const {
    ptx::ArriveIf(address_ + B::kKeysEmpty, __fadd_rn(open_[0].sum, open_[1].sum) == -1.0f);
  }
  __device__ __forceinline__ void AwaitValues() const {
    ptx::WaitBarrier(address_ + B::kValuesFull + 8 * values_.stage, values_.phase);
  }
  __device__ __forceinline__ void ReleaseValues() {
    ptx::ArriveIf(address_ + B::kValuesEmpty + 8 * values_.stage, lane_ == 0);
    values_.Advance(B::kValueStages);
  }

  const PrefillArguments& arguments_;
  unsigned char* const shared_;
  const uint32_t address_;
  const int warp_;
  const int group_;
  const int lane_;
  uint32_t turn_phase_;  // the first warpgroup's turn comes without anybody's passing it
  RowTile rows_;
  int positions_[2];  // of rows g and g + 8
  int split_;         // the split that is open
  int next_border_;
  Before before_;
  RingSlot item_;  // where its queries are
  RingSlot keys_;
  RingSlot values_;
  SoftmaxRow open_[2];  // since the last border
  float rescale_[2];
  float closing_;  // state of the split that the last border ended, as Spread leaves it
  float closed_;   // state of the splits before it
  uint32_t queries_[B::kRegisterSteps > 0 ? B::kRegisterSteps : 1][4];
  uint32_t weights_[kKeyTilePages][4];
  float scores_[8][4];
  float output_[kTiles][4];                            // since the last border
  float kept_[B::kClosedInRegisters ? kTiles : 1][4];  // the closed partial result
};

}  // namespace lockstep::kernels
