#pragma once

#include <cstdint>

#include "kernels/attention/prefill/prefill_block.cuh"
#include "kernels/core/ptx/warpgroup_mma_registers.cuh"

// The warpgroups of a prefill block that compute. The members that are only declared here are in
// prefill_group_steps.cuh and prefill_group_output.cuh; a kernel includes both.
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

  __device__ __forceinline__ void Run();

 private:
  // The order in which warpgroups issue products. The first warpgroup has the fewest tiles. For all
  // of these except the first tile, the warpgroups with rows take turns. Between items it is always
  // the first one's turn.
  struct Turns {
    int tiles;  // of the first warpgroup, which has the fewest
    int next_group;
  };

  // What happens to the output before the values of the next tile are added.
  enum class Before { kNothing, kRescale, kClose };

  __device__ __forceinline__ void Attend();

  // Computes the weights of the first key tile.
  __device__ __forceinline__ void Begin(int full_tiles, int tiles);

  // Adds the values of the previous tile, and computes the weights of this one.
  template <bool kMasked>
  __device__ __forceinline__ void Step(int tile, int tiles, const Turns& turns);

  // Adds the values of the last tile, and writes the result.
  __device__ __forceinline__ void Finish();

  // Releases what the scores of a tile were made from: its keys and, after the last tile, the
  // queries.
  __device__ __forceinline__ void ReleaseScored(bool last);

  // scores = queries times the keys of the tile.
  __device__ __forceinline__ void IssueScores();

  // output += weights times the values of the tile; at the start and after a border, the output
  // begins at zero.
  __device__ __forceinline__ void IssueValues();

  // Makes the output ready for the last tile's values.
  __device__ __forceinline__ void PrepareOutput();

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
  __device__ __forceinline__ void Close();

  template <bool kFull>
  __device__ __forceinline__ static float4 FoldTile(const PartialFold (&folds)[2], float4 closed,
                                                    const float (&open)[4]);

  // Keeps two rows' references and sums in one register of each lane of a quad. All four lanes know
  // them. Lanes 0 and 1 keep the reference and sum of row g, lanes 2 and 3 those of row g + 8.
  __device__ __forceinline__ float SpreadSummed(const SoftmaxRow (&rows)[2]) const;
  // The same for sums that are still spread over the quad.
  __device__ __forceinline__ float Spread(const SoftmaxRow (&rows)[2]) const;
  __device__ __forceinline__ static void Gather(float spread, SoftmaxRow (&rows)[2]);

  // Columns 8n .. of the closed partial result, in this thread's own place in memory.
  __device__ __forceinline__ float4& Closed(int n) const;

  __device__ __forceinline__ float4 ReadClosed(int n) const;
  __device__ __forceinline__ void WriteClosed(int n, float4 closed);

  // Calls body(n, ReadClosed(n)) for all n. With scratch, loads eight at once. The registers of the
  // scores are free here and hold them.
  template <typename Body>
  __device__ __forceinline__ void ForClosed(const Body& body) const;

  // Lanes of a quad exchange pairs of columns, so that each stores 16 bytes at once.
  __device__ __forceinline__ void Write(const float (&sums)[2]);

  // Transposes a 4 x 4 matrix over the lanes of a quad: element i of lane t becomes what was
  // element t of lane i.
  __device__ __forceinline__ static void TransposeQuad(uint32_t (&pairs)[4], int t);

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
