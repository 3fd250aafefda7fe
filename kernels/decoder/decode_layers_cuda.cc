#include <cuda.h>

#include <cstring>

#include "common/status.h"
#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/device/tensor_map.h"

namespace lockstep::kernels {
namespace {

// Maps the weights as [chunks, tiles, halves, outputs of a tile, columns of a chunk]. A box is a
// slab, swizzled as ptx::MatrixDescriptor says.
absl::Status MapProduct(const ProductShape& product, const ProductPass& pass, DecodeProduct& to) {
  const int64_t row_bytes = product.inputs * static_cast<int64_t>(sizeof(BFloat16));
  const TensorDimension dimensions[] = {
      {kChunkColumns, 0, kChunkColumns},
      {kTileOutputs, row_bytes, kTileOutputs},
      {product.halves, product.outputs * row_bytes, product.halves},
      {product.outputs / kTileOutputs, kTileOutputs * row_bytes, pass.tiles},
      {product.inputs / kChunkColumns, kChunkColumns * static_cast<int64_t>(sizeof(BFloat16)),
       pass.slab_chunks}};
  static_assert(sizeof(CUtensorMap) == sizeof(WeightMap) &&
                alignof(CUtensorMap) <= alignof(WeightMap));
  CUtensorMap map;
  LOCKSTEP_RETURN_IF_ERROR(Annotate(
      EncodeTensorMap(to.weights, dimensions, &map),
      fmt::format("the tiles of {} x {} x {}", product.halves, product.outputs, product.inputs)));
  std::memcpy(to.map.bytes, &map, sizeof(map));
  return absl::OkStatus();
}

}  // namespace

int64_t DecodeLayersFasterRows(const DecodeLayersShape& shape) { return FasterRows(shape); }

// The ops read K and V at a higher rate. With more than this in a layer, that counts for more.
int64_t DecodeLayersFasterKeys(const DecodeLayersShape& shape) {
  constexpr int64_t kFewKvBytes = int64_t{32} << 20;
  const int64_t key_elements = 2 * shape.num_kv_heads * shape.head_dim;
  return kFewKvBytes / (key_elements * static_cast<int64_t>(sizeof(BFloat16)));
}

int64_t DecodeLayersScratchWords(const DecodeLayersShape& shape, int64_t max_keys) {
  return DecodeLayersWords(shape).partials +
         DecodePartialElements(kMaxDecodeLayersRows, shape.num_heads, shape.num_kv_heads,
                               shape.head_dim, max_keys);
}

absl::Status MapWeights(const CudaStream& stream, const DecodeLayersShape& shape,
                        DecodeLayer& layer) {
  const int num_blocks = ProductBlocks(stream, shape);
  for (int index = 0; index < kNumLayerProducts; ++index) {
    const ProductShape product(shape, static_cast<LayerProduct>(index));
    const ProductPass pass(product.outputs, product.halves, num_blocks);
    LOCKSTEP_RETURN_IF_ERROR(MapProduct(product, pass, layer.products[index]));
  }
  return absl::OkStatus();
}

absl::Status DecodeLayers(const CudaStream& stream, const DecodeLayersParams& params) {
  const int64_t max_rows = DecodeLayersMaxRows(params.shape);
  if (params.num_rows < 1 || params.num_rows > max_rows) {
    return InvalidArgument("DecodeLayers: {} rows of this shape, expected 1 to {}", params.num_rows,
                           max_rows);
  }
  return LaunchDecodeLayers(stream, params);
}

}  // namespace lockstep::kernels
