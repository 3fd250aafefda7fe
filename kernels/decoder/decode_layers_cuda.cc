#include "common/status.h"
#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"

namespace lockstep::kernels {

// Small layers are short against what their kernels cost to start and to end; large ones are not,
// and the ops read their weights at a higher rate. Measured on both sides of the border, 31 and 385
// MB a layer.
int64_t DecodeLayersFasterRows(const DecodeLayersShape& shape) {
  constexpr int64_t kSmallLayerBytes = int64_t{64} << 20;
  constexpr int64_t kFewRows = 2;
  const int64_t num_weights =
      shape.hidden_size * (shape.qkv_size() + shape.q_size() + 3 * shape.intermediate_size);
  return num_weights * static_cast<int64_t>(sizeof(BFloat16)) <= kSmallLayerBytes ? kFewRows : 0;
}

int64_t DecodeLayersScratchWords(const DecodeLayersShape& shape, int64_t max_keys) {
  return DecodeLayersWords(shape).partials +
         DecodePartialElements(kMaxDecodeLayersRows, shape.num_heads, shape.num_kv_heads,
                               shape.head_dim, max_keys);
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
