#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/decoder/weight_ring.cuh"

namespace lockstep::kernels {

inline constexpr int kReadAtOnce = 4;  // pairs of words that a thread requests together

// The products of a layer: reads the inputs from words and the weights from their ring, and writes
// the outputs into words. Used by all consumers.
// layer_product_outputs.cuh has the members that are only declared here.
template <typename Form>
class LayerProducts {
 public:
  // tag: of the current layer. position: how far the block has come with its weights; must outlive
  // the object.
  __device__ LayerProducts(const LayersBlock<Form>& block, int warp, uint32_t tag,
                           StagePosition& position)
      : block_(block),
        tag_(tag),
        position_(position),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // What a warp knows of its tiles of a pass: a tile of the gate and its tile of up, or two
  // neighbouring tiles of outputs.
  struct PassOutputs {
    uint64_t* to[2];  // words of this lane's first row
    float biases[2];
    bool exists[2];
    int row_words;  // from one row to the next
  };
  struct OpenProduct {
    int tiles_left;  // that passes must begin for; 0: this warp has no part in the product
    WeightRing ring;
    OpenPass pass;
    PassOutputs outputs;
  };

  // What a product can do before its input is there. Waits for the first weights. `bias`: null if
  // there is none.
  template <LayerProduct kProduct>
  __device__ __forceinline__ OpenProduct Open(const float* bias) const {
    OpenProduct open = {};
    if (!Multiplies<kProduct>()) return open;
    const ProductPlan& product = block_.Product(kProduct);
    open.tiles_left = ptx::WarpUniform(block_.NumTiles(kProduct));
    open.ring = block_.Ring();
    open.outputs = OutputsOf<kProduct>(product, 0, bias);
    open.pass = open.ring.Open(product, Input<kProduct>(block_.address), position_);
    return open;
  }

  // Multiplies the input and writes the outputs into their words. All consumers call it, when they
  // have written their parts of the input to shared memory.
  template <LayerProduct kProduct>
  __device__ __forceinline__ void Multiply(OpenProduct& open, const float* bias) {
    SyncConsumers();
    if (open.tiles_left == 0) return;
    ptx::FenceAsyncProxy();
    for (;;) {
      const PassSums sums = open.ring.MultiplyPass(open.pass);
      open.tiles_left -= block_.Product(kProduct).pass_tiles;
      const bool is_last = open.tiles_left <= 0;
      if (is_last) ptx::ArriveAtThreads(kProductBarrier, kConsumerThreads);
      position_ = open.pass.position;
      Store<kProduct>(sums, open.outputs, bias != nullptr);
      if (is_last) return;
      OpenAgain<kProduct>(open, bias);
    }
  }

  // The warps that do not multiply wait here until the others have ended the product. If they asked
  // for words meanwhile, the product would take 5 % longer. Every warp calls it once for each
  // product, before the next barrier of the consumers.
  template <LayerProduct kProduct>
  __device__ __forceinline__ void WaitForProduct() const {
    if (warp_ < kProductWarps || block_.NumTiles(kProduct) == 0) return;
    ptx::SyncThreads(kProductBarrier, kConsumerThreads);
  }

  // Copies the input of the attention's or the MLP's output projection from its words to shared
  // memory.
  __device__ __forceinline__ void ReadWide(const ProductPlan& product) const {
    const int row_pairs = product.num_chunks * (kChunkColumns / 4);
    const int row_words = static_cast<int>(SpreadRow::Words(2 * row_pairs));
    // The pairs of a row follow those of the row before.
    for (int base = 32 * warp_; base < kRows * row_pairs; base += kReadAtOnce * kConsumerThreads) {
      const uint64_t* pairs[kReadAtOnce];
      int to[kReadAtOnce];
#pragma unroll
      for (int i = 0; i < kReadAtOnce; ++i) {
        unsigned pair = base + lane_ + i * kConsumerThreads;
        int row = 0;
#pragma unroll
        for (int next = 1; next < kRows; ++next) {
          if (pair < static_cast<unsigned>(row_pairs)) break;
          pair -= row_pairs;
          row = next;
        }
        const uint64_t* const words = product.from + row * row_words;
        pairs[i] =
            pair < static_cast<unsigned>(row_pairs) ? words + SpreadRow::Offset(2 * pair) : nullptr;
        to[i] = block_.Memory().wide + InputRows::Offset(pair / 2, row, kRows) + pair % 2 * 8;
        ptx::ComputeNow(to[i]);
      }
      LoadTaggedPairs(tag_, pairs, [&](int i, uint32_t first, uint32_t second) {
        *block_.template At<uint2>(to[i]) = make_uint2(first, second);
      });
      __syncwarp();  // some lanes had no pairs
    }
  }

 private:
  static constexpr int kRows = Form::kRows;

  // Opens the next pass. Few shapes and devices have several. So nothing of it is computed before
  // it is needed.
  template <LayerProduct kProduct>
  __device__ __forceinline__ void OpenAgain(OpenProduct& open, const float* bias) const {
    uint32_t address = block_.address;
    uint32_t index = kProduct;
    ptx::ForgetOrigin(address);
    ptx::ForgetOrigin(index);
    const ProductPlan& product = block_.Product(static_cast<int>(index));
    const int first = product.NumTiles(static_cast<int>(blockIdx.x)) - open.tiles_left;
    open.outputs = OutputsOf<kProduct>(product, first, bias);
    open.pass = open.ring.Open(product, Input<kProduct>(address), position_);
  }

  template <LayerProduct kProduct>
  static constexpr bool kIsGated =
      (Form::kStyle == DecoderStyle::kLlama) && (kProduct == kMlpInput);
  template <LayerProduct kProduct>
  static constexpr int kTiles = kIsGated<kProduct> ? 1 : 2;

  // Of the pass that begins with the block's tile `first`.
  template <LayerProduct kProduct>
  __device__ __forceinline__ PassOutputs OutputsOf(const ProductPlan& product, int first,
                                                   const float* bias) const;

  template <LayerProduct kProduct>
  __device__ __forceinline__ void Store(const PassSums& sums, const PassOutputs& outputs,
                                        bool has_bias) const;

  // How many words a row of the product's outputs takes, and where one of them lies. Those of q, k
  // and v have few readers, so they lie side by side.
  template <LayerProduct kProduct>
  __device__ __forceinline__ static int RowWords(const ProductPlan& product) {
    if constexpr (kProduct == kQkv) return product.outputs / 2;
    constexpr bool kIsNormed = kProduct != kMlpInput;
    return static_cast<int>(kIsNormed ? NormRow::Words(product.outputs)
                                      : SpreadRow::Words(product.outputs / 2));
  }
  template <LayerProduct kProduct>
  __device__ __forceinline__ static int WordOffset(int word) {
    if constexpr (kProduct == kQkv) return word;
    if constexpr (kProduct == kMlpInput) return SpreadRow::Offset(word);
    return NormRow::Offset(word);
  }
  template <LayerProduct kProduct>
  __device__ __forceinline__ InputRows Input(uint32_t shared) const {
    constexpr bool kIsNormed = kProduct == kQkv || kProduct == kMlpInput;
    const int offset = kIsNormed ? block_.Memory().normed : block_.Memory().wide;
    return {shared + offset, kRows};
  }
  // Whether this warp has a part in the product.
  template <LayerProduct kProduct>
  __device__ __forceinline__ bool Multiplies() const {
    return warp_ < kProductWarps && block_.NumTiles(kProduct) > 0;
  }
  __device__ __forceinline__ static float Rounded(float value) {
    return DeviceToFloat(DeviceToBFloat16(value));
  }

  const LayersBlock<Form> block_;
  const uint32_t tag_;
  StagePosition& position_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
