#include <algorithm>

#include "kernels/core/ptx/registers.cuh"
#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/decoder/layer_attention_items.cuh"
#include "kernels/decoder/layer_product_outputs.cuh"
#include "kernels/decoder/layers_fill.cuh"
#include "kernels/decoder/residual_norm_sums.cuh"
#include "kernels/device/launch.cuh"

// One block per multiprocessor. The first blocks multiply. All of them attend, the last ones first.
// Eight warps compute: the first four all matrix products and the values of attention, the others
// its scores and most of its heads. One warp fills the ring of weights, one the ring of keys and
// values, and one prefetches norm weights and biases. A layer has five exchanges of tagged words:
// q, k and v; attention; its projection; the gated activations; the MLP's output. If a row has
// several splits, there is a sixth within attention. Each block with a tile of qkv, or of gate and
// up, keeps its own copy of the residual rows. The first block norms the result.
//
// A word of layer l is overwritten in layer l + 1. By then all its readers must have finished. The
// writer in layer l + 1 has seen a whole vector that depends on every reader's own output of layer
// l, or words of blocks that have seen one. So it is enough that no block reads what its own
// outputs do not depend on. That is why a block without a tile of a product does not read the
// product's input. It is also why a block that keeps the residual has a tile of gate and up
// (HasKernel): if all rows are padding, nothing depends on q, k and v. One read is outside this
// rule: the last norm's. Its words are written next by the next call, which waits for the end of
// this one.
namespace lockstep::kernels {
namespace {

// The consumers: the warps that compute.
template <typename Form>
class Consumer {
 public:
  __device__ Consumer(const LayersBlock<Form>& block, uint32_t last_tag)
      : block_(block),
        warp_(ptx::WarpUniform(static_cast<int>(threadIdx.x) / 32)),
        tag_(last_tag) {}

  __device__ void Run() {
    const int num_layers = ptx::WarpUniform(static_cast<int>(block_.Params().shape.num_layers));
    const DecodeLayer& first = block_.Params().layers[0];
    if (KeepsResidual()) NextNorm(first.attention_norm, first.attention_norm_bias);
    for (int layer = 0; layer < num_layers; ++layer) {
      ++tag_;
      RunLayer(block_.Params().layers + layer, layer == 0, layer + 1 == num_layers);
    }
    if (blockIdx.x != 0) return;
    Norm().NormRows(false, block_.Product(kQkv).from, tag_);
    Norm().StoreNormed();
  }

 private:
  __device__ __forceinline__ void RunLayer(const DecodeLayer* layers, bool is_first, bool is_last) {
    const DecodeLayer& layer = layers[0];
    // Loaded from global memory now, so that they are there when they are needed.
    const float* const biases[kNumLayerProducts] = {
        layer.products[kQkv].bias, layer.products[kAttentionOutput].bias,
        layer.products[kMlpInput].bias, layer.products[kMlpOutput].bias};
    const bool keeps_residual = KeepsResidual();

    auto qkv = Products().template Open<kQkv>(biases[kQkv]);
    if (keeps_residual) Norm().NormRows(is_first, block_.Product(kQkv).from, tag_ - 1);
    Multiply<kQkv>(qkv, biases[kQkv]);
    if (keeps_residual) NextNorm(layer.mlp_norm, layer.mlp_norm_bias);
    block_.Forget();
    Attention().Attend(layer, [&] { Products().template WaitForProduct<kQkv>(); });
    MultiplyWide<kAttentionOutput>(biases[kAttentionOutput]);

    auto mlp_input = Products().template Open<kMlpInput>(biases[kMlpInput]);
    if (keeps_residual) Norm().NormRows(false, block_.Product(kMlpInput).from, tag_);
    Multiply<kMlpInput>(mlp_input, biases[kMlpInput]);
    if (!is_last && keeps_residual) {
      NextNorm(layers[1].attention_norm, layers[1].attention_norm_bias);
    } else if (is_last && blockIdx.x == 0) {
      NextNorm(block_.Params().final_norm, block_.Params().final_norm_bias);
    }
    Products().template WaitForProduct<kMlpInput>();
    block_.Forget();
    MultiplyWide<kMlpOutput>(biases[kMlpOutput]);
  }

  // A product with input from other blocks. A block without a tile does not read it.
  template <LayerProduct kProduct>
  __device__ __forceinline__ void MultiplyWide(const float* bias) {
    if (block_.NumTiles(kProduct) == 0) return;
    auto open = Products().template Open<kProduct>(bias);
    Products().ReadWide(block_.Product(kProduct));
    Multiply<kProduct>(open, bias);
    Products().template WaitForProduct<kProduct>();
  }
  template <LayerProduct kProduct>
  __device__ __forceinline__ void Multiply(auto& open, const float* bias) {
    block_.Forget();
    Products().template Multiply<kProduct>(open, bias);
    block_.Forget();
  }
  __device__ __forceinline__ bool KeepsResidual() const {
    return block_.NumTiles(kQkv) + block_.NumTiles(kMlpInput) > 0;
  }
  __device__ __forceinline__ void NextNorm(const float* weights, const float* biases) const {
    NormWeights<Form>{block_}.Fetch(weights, biases);
  }
  __device__ __forceinline__ LayerProducts<Form> Products() {
    return {block_, warp_, tag_, weights_};
  }
  __device__ __forceinline__ ResidualNorm<Form> Norm() const { return {block_, warp_}; }
  __device__ __forceinline__ LayerAttention<Form> Attention() {
    return {block_, warp_, tag_, attention_};
  }

  LayersBlock<Form> block_;
  const int warp_;
  uint32_t tag_;
  StagePosition weights_;
  AttentionProgress attention_;
};

// The block that ends last leaves the tag for the next call. Call from all threads.
__device__ __forceinline__ void EndBlock(const DecodeLayersParams& params) {
  uint32_t* const num_ended = reinterpret_cast<uint32_t*>(params.scratch + 1);
  const bool is_last =
      __syncthreads_or(threadIdx.x == 0 && ptx::AddAcquireRelease(num_ended, 1) == gridDim.x - 1);
  if (!is_last) return;
  const uint32_t last_tag = *reinterpret_cast<const volatile uint32_t*>(params.scratch);
  const uint32_t next_tag = last_tag + static_cast<uint32_t>(params.shape.num_layers);
  const bool runs_out = next_tag > DecodeLayersWords::kLastTag;
  if (runs_out) {
    for (int64_t i = DecodeLayersWords::kHeaderWords + threadIdx.x; i < params.num_scratch_words;
         i += blockDim.x) {
      params.scratch[i] = 0;
    }
  }
  __syncthreads();  // all have read the tag
  if (threadIdx.x != 0) return;
  *num_ended = 0;
  *reinterpret_cast<uint32_t*>(params.scratch) = runs_out ? 0 : next_tag;
}

template <typename Form>
__global__ void __launch_bounds__(kThreads, 1)
    DecodeLayersKernel(const __grid_constant__ DecodeLayersArguments<Form::kHeadDim> arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const DecodeLayersParams& params = arguments.params;
  const LayersBlock<Form> block = {&arguments, ptx::SharedAddress(shared)};
  const int warp = ptx::WarpUniform(static_cast<int>(threadIdx.x) / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const WeightRing ring = block.Ring();
  if (threadIdx.x == 0) {
    ring.Initialize();
    for (int stage = 0; stage < arguments.attention.num_stages; ++stage) {
      ptx::InitBarrier(block.Kv().FullBarrier(stage), 1);
      ptx::InitBarrier(block.Kv().EmptyBarrier(stage), kConsumerThreads);
    }
    ptx::FenceBarrierInit();
  }
  __syncthreads();
  const auto sync_attention = [] { ptx::SyncThreads(kAttentionBarrier, kConsumerThreads + 32); };
  if (warp >= kConsumerWarps) {
    ptx::ReleaseRegisters<kProducerRegisters>();
    if (warp == kWeightWarp) {
      // No kernel writes weights, so this warp does not wait for the preceding kernel.
      FillWeightRing(block);
    } else if (warp == kKvWarp) {
      ptx::WaitForPredecessor();
      sync_attention();
      FillKvRing(block, lane);
    } else if (warp == kPrefetchWarp) {
      PrefetchVectors(arguments.params, lane);
    }
  } else {
    ptx::TakeRegisters<kConsumerRegisters>();
    ptx::WaitForPredecessor();
    ptx::AllowSuccessor();
    CountWork(block);
    sync_attention();
    if (warp == 0) StoreBlockItem(block, lane);
    const uint32_t last_tag = *reinterpret_cast<const volatile uint32_t*>(params.scratch);
    Consumer<Form>(block, last_tag).Run();
  }
  EndBlock(params);
}

constexpr int kMaxSharedBytes = 227 * 1024;
// Stages of keys and values. Each takes room from the ring of weights.
template <int kHeadDim>
constexpr int kKvStages = kHeadDim <= 64 ? 4 : 2;

// Stages of the deepest ring of weights that fits beside the rest; 0 if these are too few to be of
// use.
template <int kHeadDim>
int WeightStages(const DecodeLayersShape& shape, int64_t num_rows) {
  const int rest =
      DecodeLayersMemory<kHeadDim>(shape, static_cast<int>(num_rows), kKvStages<kHeadDim>, 0).end;
  const int stages = std::min((kMaxSharedBytes - rest) / kStageBytes, kMaxWeightStages);
  return stages < kMinWeightStages ? 0 : stages;
}

template <typename Form>
absl::Status LaunchFor(const CudaStream& stream, const DecodeLayersParams& params) {
  constexpr int kHeadDim = Form::kHeadDim;
  const DecodeLayersShape& shape = params.shape;
  const int num_stages = WeightStages<kHeadDim>(shape, params.num_rows);
  const DecodeLayersWords words(shape);
  const auto product = [&](LayerProduct of, int64_t from, int64_t to) {
    return ProductPlan(shape, of, ProductBlocks(stream, shape), params.scratch + from,
                       params.scratch + to);
  };
  const DecodeLayersArguments<kHeadDim> arguments = {
      .params = params,
      .attention = {.params = {.kv = {.num_kv_heads = shape.num_kv_heads,
                                      .head_dim = shape.head_dim},
                               .num_heads = shape.num_heads,
                               .num_rows = params.num_rows,
                               .positions = params.positions},
                    .exponent_scale = ExponentScale(params.attention_scale),
                    .group = static_cast<int>(shape.num_heads / shape.num_kv_heads),
                    .num_stages = kKvStages<kHeadDim>},
      .memory = {shape, static_cast<int>(params.num_rows), kKvStages<kHeadDim>, num_stages},
      .words = words,
      .products = {product(kQkv, words.mlp_delta, words.qkv),
                   product(kAttentionOutput, words.attention, words.attention_delta),
                   product(kMlpInput, words.attention_delta, words.activated),
                   product(kMlpOutput, words.activated, words.mlp_delta)},
      .num_weight_stages = num_stages};
  const auto kernel = DecodeLayersKernel<Form>;
  const int shared_bytes = arguments.memory.end;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes));
  return Launch(stream, "decode layers",
                {.grid = dim3(static_cast<unsigned>(DecodeLayersBlocks(stream))),
                 .block = dim3(kThreads),
                 .shared_bytes = static_cast<size_t>(shared_bytes)},
                kernel, arguments);
}

// Calls function(form) with the LayersForm of the shape and the number of rows, 1 to
// kMaxDecodeLayersRows.
template <typename Function>
auto WithForm(const DecodeLayersShape& shape, int64_t num_rows, const Function& function) {
  static_assert(kMaxDecodeLayersRows == 4);
  const auto with_style = [&](auto head_dim, auto style) {
    switch (num_rows) {
      case 1:
        return function(LayersForm<head_dim(), style(), 1>());
      case 2:
        return function(LayersForm<head_dim(), style(), 2>());
      case 3:
        return function(LayersForm<head_dim(), style(), 3>());
      default:
        return function(LayersForm<head_dim(), style(), 4>());
    }
  };
  const auto with_head_dim = [&](auto head_dim) {
    if (shape.style == DecoderStyle::kLlama) {
      return with_style(head_dim, std::integral_constant<DecoderStyle, DecoderStyle::kLlama>());
    }
    return with_style(head_dim, std::integral_constant<DecoderStyle, DecoderStyle::kGpt2>());
  };
  switch (shape.head_dim) {
    case 16:
      return with_head_dim(std::integral_constant<int, 16>());
    case 64:
      return with_head_dim(std::integral_constant<int, 64>());
    default:
      return with_head_dim(std::integral_constant<int, 128>());
  }
}

bool HasKernel(const DecodeLayersShape& shape) {
  const bool has_head_dim = shape.head_dim == 16 || shape.head_dim == 64 || shape.head_dim == 128;
  const bool has_tiles = shape.hidden_size % kChunkColumns == 0 &&
                         shape.intermediate_size % kChunkColumns == 0 &&
                         shape.q_size() % kChunkColumns == 0;
  const int64_t most_blocks_with_qkv =
      std::min<int64_t>(shape.qkv_size() / kTileOutputs, kMaxDecodeLayersBlocks);
  const bool residual_is_read = shape.intermediate_size / kTileOutputs >= most_blocks_with_qkv;
  return has_head_dim && has_tiles && residual_is_read &&
         shape.num_heads / shape.num_kv_heads <= 8 &&
         shape.hidden_size <= kConsumerThreads * kRowGroup;
}

}  // namespace

int64_t DecodeLayersMaxRows(const DecodeLayersShape& shape) {
  if (!HasKernel(shape)) return 0;
  int64_t rows = kMaxDecodeLayersRows;
  const auto fits = [&](auto form) {
    return WeightStages<decltype(form)::kHeadDim>(shape, rows) > 0;
  };
  while (rows > 0 && !WithForm(shape, rows, fits)) --rows;
  return rows;
}

absl::StatusOr<bool> DecodeLayersFit(const CudaStream& stream, const DecodeLayersShape& shape) {
  int device = 0;
  int num_multiprocessors = 0;  // MPS may leave the process fewer than the device has
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto fits = [&](auto form) -> absl::StatusOr<bool> {
    const auto kernel = DecodeLayersKernel<decltype(form)>;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes));
    int blocks_of_multiprocessor = 0;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks_of_multiprocessor, kernel, kThreads, kMaxSharedBytes));
    return blocks_of_multiprocessor * num_multiprocessors >= DecodeLayersBlocks(stream);
  };
  for (int64_t num_rows = 1; num_rows <= kMaxDecodeLayersRows; ++num_rows) {
    const absl::StatusOr<bool> fit = WithForm(shape, num_rows, fits);
    if (!fit.ok() || !*fit) return fit;
  }
  return true;
}

absl::Status LaunchDecodeLayers(const CudaStream& stream, const DecodeLayersParams& params) {
  return WithForm(params.shape, params.num_rows,
                  [&](auto form) { return LaunchFor<decltype(form)>(stream, params); });
}

}  // namespace lockstep::kernels
