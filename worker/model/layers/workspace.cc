#include "worker/model/layers/workspace.h"

#include <algorithm>

#include "common/status.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

// The largest that a kind of layers has.
template <typename SizeOf>
int64_t Largest(const ModelPlan& plan, const SizeOf& size_of) {
  int64_t largest = 0;
  for (const LayerKind& kind : plan.kinds) largest = std::max(largest, size_of(kind));
  return largest;
}

void LayOut(const ModelPlan& plan, const TensorRank& rank, int64_t tokens, int64_t logits_rows,
            Workspace& workspace) {
  const ModelPlan share = ShareOf(plan, rank);
  const auto q_size = [](const LayerKind& kind) { return kind.attention.q_size(); };
  const auto qkv_size = [](const LayerKind& kind) { return kind.attention.qkv_size(); };
  const auto mlp_input_size = [](const LayerKind& kind) { return kind.mlp.input_size(); };
  const auto intermediate_size = [](const LayerKind& kind) { return kind.mlp.intermediate_size; };
  const int64_t all_heads = Largest(plan, q_size);
  Arena& storage = workspace.storage;
  workspace.residual = storage.Take<BFloat16>(tokens * plan.hidden_size);
  workspace.normed = storage.Take<BFloat16>(tokens * plan.hidden_size);
  workspace.qkv = storage.Take<BFloat16>(tokens * Largest(share, qkv_size));
  workspace.attention = storage.Take<BFloat16>(tokens * all_heads);
  workspace.delta = storage.Take<BFloat16>(tokens * plan.hidden_size);
  workspace.gate_up = storage.Take<BFloat16>(tokens * Largest(share, mlp_input_size));
  workspace.activated = storage.Take<BFloat16>(tokens * Largest(plan, intermediate_size));
  if (rank.degree > 1) {
    const int64_t most_columns = std::max(
        {Largest(share, q_size), rank.Share(plan.hidden_size), Largest(share, intermediate_size)});
    for (BFloat16*& columns : workspace.exchanged) {
      columns = storage.Take<BFloat16>(tokens * most_columns);
    }
  }
  workspace.last_residual = storage.Take<BFloat16>(logits_rows * plan.hidden_size);
  workspace.last_attention = storage.Take<BFloat16>(logits_rows * all_heads);
  workspace.positions = storage.Take<uint32_t>(tokens);
  workspace.kv_inputs.resize(plan.kv_groups.size());
  for (KvInputs& inputs : workspace.kv_inputs) {
    inputs.kv_slots = storage.Take<uint64_t>(tokens);
    inputs.sequences = storage.Take<kernels::AttentionSequence>(tokens);
  }
}

}  // namespace

absl::StatusOr<Workspace> Workspace::Create(const ModelPlan& plan, const TensorRank& rank,
                                            int64_t max_step_tokens, int64_t max_logits_rows,
                                            const std::function<absl::Status(Arena&)>& commit) {
  Workspace workspace;
  LayOut(plan, rank, max_step_tokens, max_logits_rows, workspace);
  LOCKSTEP_RETURN_IF_ERROR(Annotate(commit(workspace.storage), "workspace of a step"));
  LayOut(plan, rank, max_step_tokens, max_logits_rows, workspace);
  return workspace;
}

}  // namespace lockstep::worker
