#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/attention/paged_attention_isa.h"

namespace lockstep::kernels {
namespace {

absl::Status CheckParams(const PagedAttentionParams& params) {
  const PagedKv& kv = params.kv;
  if (kv.head_dim % 2 != 0 || kv.head_dim > kMaxAttentionHeadDim) {
    return InvalidArgument("attention: head_dim must be even and at most {}, got {}",
                           kMaxAttentionHeadDim, kv.head_dim);
  }
  if (kv.num_kv_heads <= 0 || params.num_heads % kv.num_kv_heads != 0) {
    return InvalidArgument("attention: {} heads cannot share {} KV heads evenly", params.num_heads,
                           kv.num_kv_heads);
  }
  if (params.split_keys <= 0 || params.split_keys % kKeyTile != 0) {
    return InvalidArgument("attention: split_keys must be a multiple of {}, got {}", kKeyTile,
                           params.split_keys);
  }
  if (params.window_tokens < 0) {
    return InvalidArgument("attention: window_tokens must not be negative, got {}",
                           params.window_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PagedAttention(const Stream& stream, const PagedAttentionParams& params) {
  LOCKSTEP_RETURN_IF_ERROR(CheckParams(params));
  int64_t num_tokens = 0;
  for (const AttentionSequence& sequence : params.sequences) num_tokens += sequence.num_tokens;
  if (num_tokens == 0) return absl::OkStatus();
  const int num_tasks = stream.NumTasks(num_tokens * params.kv.num_kv_heads);
  ParallelTasks(stream, num_tasks, [&](int index) {
    LOCKSTEP_DISPATCH(stream, AttendShare, params, index, num_tasks);
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
