#pragma once

#include "kernels/attention/prefill/prefill_group.cuh"

// How a warpgroup of PrefillGroup passes over the keys of an item.
namespace lockstep::kernels {

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Run() {
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

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Attend() {
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

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Begin(int full_tiles, int tiles) {
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

template <int kHeadDim, int kGroups>
template <bool kMasked>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Step(int tile, int tiles,
                                                                      const Turns& turns) {
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

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::ReleaseScored(bool last) {
  if constexpr (B::kRegisterSteps > 0) ptx::HoldOperand(queries_);
  ReleaseKeys();
  if (!kQueriesInRegisters) {
    ptx::ArriveIf(address_ + B::kQueriesEmpty + B::QueryBarrier(QueryStage(), group_),
                  lane_ == 0 && last);
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::IssueScores() {
  const uint64_t keys =
      ptx::MatrixDescriptor(address_ + B::kKeys) + keys_.stage * (B::kTileBytes / kDescriptorUnit);
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

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::IssueValues() {
  const uint64_t values = ptx::TransposedMatrixDescriptor(address_ + B::kValues, kPanelPageBytes) +
                          values_.stage * (B::kTileBytes / kDescriptorUnit);
#pragma unroll
  for (int page = 0; page < kKeyTilePages; ++page) {
    ptx::WarpgroupMmaRegisters<true>(
        output_, weights_[page], values + page * (B::kPanels * kPanelPageBytes / kDescriptorUnit),
        page != 0 || before_ == Before::kRescale);
  }
  ptx::WarpgroupCommit();
}

}  // namespace lockstep::kernels
