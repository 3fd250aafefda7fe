#include <algorithm>

#include "kernels/core/ptx/registers.cuh"
#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"
#include "kernels/decoder/layer_attention.cuh"
#include "kernels/decoder/layer_products.cuh"
#include "kernels/decoder/layers_fill.cuh"
#include "kernels/decoder/residual_norm.cuh"
#include "kernels/device/launch.cuh"

// One block per multiprocessor: eight warps compute, one fills the ring of weights, one the ring of
// keys and values. Per layer five exchanges of tagged words: q, k and v; attention; its projection;
// the gated activations; the MLP's output. Blocks that need residual rows keep them, each for
// itself.
//
// A word of layer l is written again in layer l + 1: all its readers must be through by then. The
// writer of layer l + 1 has seen a whole vector that depends on every reader's own output of layer
// l, so it suffices that no block reads what its own outputs do not depend on. That is why a block
// without a tile of a product does not read the product's input, and why a block that keeps the
// residual has a tile of gate and up (HasKernel): where all rows are padding nothing depends on q,
// k and v.
namespace lockstep::kernels {
namespace {

// The consumers: everything that computes.
template <int kHeadDim>
class Consumer {
 public:
  __device__ Consumer(const LayersBlock<kHeadDim>& block, uint32_t last_tag)
      : block_(block), tag_(last_tag) {}

  __device__ void Run() {
    for (int64_t layer = 0; layer < block_.Params().shape.num_layers; ++layer) {
      ++tag_;
      block_.Forget();
      RunLayer(block_.Params().layers[layer], layer == 0,
               layer + 1 == block_.Params().shape.num_layers);
    }
  }

 private:
  __device__ __forceinline__ void RunLayer(const DecodeLayer& layer, bool is_first, bool is_last) {
    const bool keeps_residual = block_.Qkv(layer).num_tiles + block_.GateUp(layer).num_tiles > 0;
    if (is_first) {
      Norm().NormEmbeddings(layer.attention_norm);
    } else if (keeps_residual) {
      Norm().NormRows(block_.Offsets().mlp_delta, tag_ - 1, layer.attention_norm);
    }
    SyncConsumers();
    block_.Forget();
    const BlockProduct qkv = block_.Qkv(layer);
    Products().template Multiply<1>(
        qkv, Products().Normed(), [&](int tile, const TileSums<1>& sums) {
          Products().StoreProduct(qkv, layer.qkv_bias, tile, sums, block_.Offsets().qkv);
        });

    block_.Forget();
    Attention().Attend(layer);

    block_.Forget();
    const BlockProduct attention_output = block_.AttentionOutput(layer);
    if (attention_output.num_tiles > 0) {
      Products().ReadWide(block_.Offsets().attention, block_.QSize() / 2);
      SyncConsumers();
    }
    block_.Forget();
    Products().template Multiply<1>(
        attention_output, Products().Wide(), [&](int tile, const TileSums<1>& sums) {
          Products().StoreProduct(attention_output, layer.attention_output_bias, tile, sums,
                                  block_.Offsets().attention_delta);
        });

    block_.Forget();
    if (keeps_residual) Norm().NormRows(block_.Offsets().attention_delta, tag_, layer.mlp_norm);
    if (is_last && blockIdx.x == 0) Norm().StoreResidual();
    SyncConsumers();
    block_.Forget();
    const BlockProduct gate_up = block_.GateUp(layer);
    Products().template Multiply<2>(
        gate_up, Products().Normed(), [&](int tile, const TileSums<2>& sums) {
          Products().StoreGated(gate_up, layer.gate_up_bias, tile, sums);
        });

    block_.Forget();
    const BlockProduct down = block_.Down(layer);
    if (down.num_tiles > 0) {
      Products().ReadWide(block_.Offsets().activated, block_.Intermediate() / 2);
      SyncConsumers();
    }
    block_.Forget();
    Products().template Multiply<1>(
        down, Products().Wide(), [&](int tile, const TileSums<1>& sums) {
          if (is_last) {
            Products().StoreDelta(down, layer.down_bias, tile, sums);
          } else {
            Products().StoreProduct(down, layer.down_bias, tile, sums, block_.Offsets().mlp_delta);
          }
        });
  }

  __device__ __forceinline__ LayerProducts<kHeadDim> Products() { return {block_, tag_, weights_}; }
  __device__ __forceinline__ ResidualNorm<kHeadDim> Norm() const { return {block_, tag_}; }
  __device__ __forceinline__ LayerAttention<kHeadDim> Attention() {
    return {block_, tag_, attention_};
  }

  LayersBlock<kHeadDim> block_;
  uint32_t tag_;
  StagePosition weights_;
  AttentionProgress attention_;
};

// The block that ends last leaves the tag for the next call.
__device__ __forceinline__ void EndBlock(const DecodeLayersParams& params, uint32_t last_tag) {
  uint32_t* const num_ended = reinterpret_cast<uint32_t*>(params.scratch + 1);
  if (ptx::AddAcquireRelease(num_ended, 1) != gridDim.x - 1) return;
  *num_ended = 0;
  *reinterpret_cast<uint32_t*>(params.scratch) =
      last_tag + static_cast<uint32_t>(params.shape.num_layers);
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    DecodeLayersKernel(const __grid_constant__ DecodeLayersArguments<kHeadDim> arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const DecodeLayersParams& params = arguments.params;
  auto* const kept =
      reinterpret_cast<DecodeLayersArguments<kHeadDim>*>(shared + arguments.memory.arguments);
  const LayersBlock<kHeadDim> block = {kept, shared, ptx::SharedAddress(shared)};
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    *kept = arguments;
    block.Ring().Initialize();
    for (int stage = 0; stage < arguments.attention.num_stages; ++stage) {
      ptx::InitBarrier(block.Kv().FullBarrier(stage), 1);
      ptx::InitBarrier(block.Kv().EmptyBarrier(stage), kMathWarps);
    }
    ptx::FenceBarrierInit();
    *reinterpret_cast<uint4*>(shared + arguments.memory.zero) = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
  const auto sync_attention = [] { ptx::SyncThreads(kAttentionBarrier, kConsumerThreads + 32); };
  uint32_t last_tag = 0;
  if (warp >= kConsumerWarps) {
    ptx::ReleaseRegisters<kProducerRegisters>();
    if (warp == kWeightWarp) {
      // Nobody writes weights: their way need not wait for the kernel before this one.
      FillWeightRing(block);
    } else if (warp == kKvWarp) {
      ptx::WaitForPredecessor();
      CountWork(block.Attention(), block.Kv(), sync_attention);
      FillKvRing(block, lane);
    } else if (warp == kPrefetchWarp) {
      PrefetchNormWeights(arguments.params, lane);
    }
  } else {
    ptx::TakeRegisters<kConsumerRegisters>();
    ptx::WaitForPredecessor();
    ptx::AllowSuccessor();
    CountWork(block.Attention(), block.Kv(), sync_attention);
    last_tag = *reinterpret_cast<const volatile uint32_t*>(params.scratch);
    Consumer<kHeadDim>(block, last_tag).Run();
  }
  __syncthreads();
  if (threadIdx.x == 0) EndBlock(params, last_tag);
}

constexpr int kMaxSharedBytes = 227 * 1024;
constexpr int kMaxKvStages = 2;

// The deepest ring of weights that fits beside the rest; 0: too shallow to be of use.
template <int kHeadDim>
int WeightStages(const DecodeLayersShape& shape, int64_t num_rows) {
  const int rest =
      DecodeLayersMemory<kHeadDim>(shape, static_cast<int>(num_rows), kMaxKvStages, 0).end;
  const int stages = std::min((kMaxSharedBytes - rest) / kStageBytes, kMaxWeightStages);
  return stages < kMinWeightStages ? 0 : stages;
}

template <int kHeadDim>
absl::Status LaunchFor(const CudaStream& stream, const DecodeLayersParams& params) {
  const DecodeLayersShape& shape = params.shape;
  const int num_stages = WeightStages<kHeadDim>(shape, params.num_rows);
  const DecodeLayersArguments<kHeadDim> arguments = {
      .params = params,
      .attention = {.params = {.kv = {.num_kv_heads = shape.num_kv_heads,
                                      .head_dim = shape.head_dim},
                               .num_heads = shape.num_heads,
                               .num_rows = params.num_rows,
                               .positions = params.positions},
                    .exponent_scale = ExponentScale(params.attention_scale),
                    .group = static_cast<int>(shape.num_heads / shape.num_kv_heads),
                    .num_stages = kMaxKvStages},
      .memory = {shape, static_cast<int>(params.num_rows), kMaxKvStages, num_stages},
      .words = DecodeLayersWords(shape),
      .num_weight_stages = num_stages};
  const auto kernel = DecodeLayersKernel<kHeadDim>;
  const int shared_bytes = arguments.memory.end;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes));
  const int num_blocks = std::min(stream.num_multiprocessors, kMaxDecodeLayersBlocks);
  return Launch(stream, "decode layers",
                {.grid = dim3(static_cast<unsigned>(num_blocks)),
                 .block = dim3(kThreads),
                 .shared_bytes = static_cast<size_t>(shared_bytes)},
                kernel, arguments);
}

template <typename Function>
auto WithHeadDim(int64_t head_dim, const Function& function) {
  switch (head_dim) {
    case 16:
      return function(std::integral_constant<int, 16>());
    case 64:
      return function(std::integral_constant<int, 64>());
    default:
      return function(std::integral_constant<int, 128>());
  }
}

bool HasKernel(const DecodeLayersShape& shape) {
  const bool has_head_dim = shape.head_dim == 16 || shape.head_dim == 64 || shape.head_dim == 128;
  const bool has_tiles = shape.hidden_size % kRunColumns == 0 &&
                         shape.intermediate_size % kRunColumns == 0 &&
                         shape.q_size() % kRunColumns == 0;
  const int64_t most_blocks_with_qkv =
      std::min<int64_t>(shape.qkv_size() / kTileOutputs, kMaxDecodeLayersBlocks);
  const bool residual_is_read = shape.intermediate_size / kTileOutputs >= most_blocks_with_qkv;
  return has_head_dim && has_tiles && residual_is_read &&
         shape.num_heads / shape.num_kv_heads <= 8 &&
         shape.hidden_size <= kMaxGroups * kConsumerThreads * kRowGroup;
}

}  // namespace

int64_t DecodeLayersMaxRows(const DecodeLayersShape& shape) {
  if (!HasKernel(shape)) return 0;
  int64_t rows = kMaxDecodeLayersRows;
  const auto fits = [&](auto head_dim) { return WeightStages<head_dim()>(shape, rows) > 0; };
  while (rows > 0 && !WithHeadDim(shape.head_dim, fits)) --rows;
  return rows;
}

absl::Status LaunchDecodeLayers(const CudaStream& stream, const DecodeLayersParams& params) {
  return WithHeadDim(params.shape.head_dim,
                     [&](auto head_dim) { return LaunchFor<head_dim()>(stream, params); });
}

}  // namespace lockstep::kernels
