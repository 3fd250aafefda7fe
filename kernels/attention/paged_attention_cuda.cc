#include "kernels/attention/paged_attention_cuda.h"

#include "common/status.h"
#include "kernels/attention/prefill_tiles.h"

namespace lockstep::kernels {
namespace {

template <typename Params>
absl::Status CheckParams(const Params& params) {
  const PagedKv& kv = params.kv;
  if (!ForKv(kv, [](auto, auto) {})) {
    return InvalidArgument(
        "attention: head_dim must be {}32, 64, {}96, 128 or 256{}, got {}",
        kv.type == KvType::kBFloat16 ? "16, " : "", kv.type == KvType::kBFloat16 ? "80, " : "",
        kv.type == KvType::kBFloat16 ? "" : " for keys and values in FP8", kv.head_dim);
  }
  if (kv.num_kv_heads <= 0 || params.num_heads % kv.num_kv_heads != 0) {
    return InvalidArgument("attention: {} heads cannot share {} KV heads evenly", params.num_heads,
                           kv.num_kv_heads);
  }
  if (params.num_heads / kv.num_kv_heads > kMaxDeviceGroup) {
    return InvalidArgument("attention: at most {} heads can share a KV head, not {} of {}",
                           kMaxDeviceGroup, params.num_heads / kv.num_kv_heads, params.num_heads);
  }
  if (!(params.scale > 0.0f)) {
    return InvalidArgument("attention: scale must be positive, got {}", params.scale);
  }
  if (params.query_stride % 8 != 0 || params.output_stride % 8 != 0) {
    return InvalidArgument("attention: strides must be multiples of 8, got {} and {}",
                           params.query_stride, params.output_stride);
  }
  return absl::OkStatus();
}

absl::Status CheckDecode(const PagedDecodeAttentionParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckParams(params));
  if (params.num_rows > kMaxDecodeRows) {
    return InvalidArgument("attention: at most {} decode rows, got {}", kMaxDecodeRows,
                           params.num_rows);
  }
  if (params.num_rows > 0 && params.max_keys <= 0) {
    return InvalidArgument("attention: max_keys must be positive, got {}", params.max_keys);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanPagedDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckDecode(params));
  if (params.num_rows <= 0) return absl::OkStatus();
  return LaunchDecodePlan(stream, params, MaxDecodeRuns(stream, params));
}

absl::Status PagedDecodeAttention(const CudaStream& stream,
                                  const PagedDecodeAttentionParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckDecode(params));
  if (params.num_rows <= 0) return absl::OkStatus();
  return LaunchPagedDecode(stream, params);
}

absl::Status PagedPrefillAttention(const CudaStream& stream,
                                   const PagedPrefillAttentionParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckParams(params));
  if (PrefillScratchDims(params.kv.head_dim) > 0 && params.scratch == nullptr) {
    return InvalidArgument("attention: prefill with head_dim {} needs scratch", params.kv.head_dim);
  }
  if (params.tile_rows != kSmallPrefillTileRows &&
      !(params.tile_rows == kLargePrefillTileRows && HasLargePrefillTiles(params.kv.head_dim))) {
    return InvalidArgument("attention: no prefill in tiles of {} rows with head_dim {}",
                           params.tile_rows, params.kv.head_dim);
  }
  if (params.num_tiles <= 0) return absl::OkStatus();
  return LaunchPagedPrefill(stream, params);
}

}  // namespace lockstep::kernels
