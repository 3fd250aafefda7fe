#include "worker/model/plan/tensor_rank.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace lockstep::worker {
namespace {

template <typename PartName>
void ShareParts(const TensorRank& rank, EnumArray<PartName, Part>& parts) {
  for (const PartName name : EnumValues<PartName>()) {
    Part& part = parts[name];
    if (part.kind != PartKind::kLinear) continue;
    part.num_outputs = rank.Share(part.num_outputs);
    for (TensorPiece& piece : part.pieces) piece.num_outputs = rank.Share(piece.num_outputs);
  }
}

}  // namespace

absl::Status CheckDegree(const ModelPlan& plan, int64_t degree) {
  if (degree < 1) return InvalidArgument("a tensor-parallel group of {} ranks", degree);
  std::vector<std::string> uneven;  // each size once, however many kinds of layers have it
  const auto check = [&](std::string_view name, int64_t size) {
    std::string text = fmt::format("{} ({})", name, size);
    if (size % degree != 0 && !std::ranges::count(uneven, text)) uneven.push_back(std::move(text));
  };
  for (const LayerKind& kind : plan.kinds) {
    check("heads", kind.attention.num_heads);
    check("KV heads", kind.attention.num_kv_heads);
  }
  check("hidden size", plan.hidden_size);
  for (const LayerKind& kind : plan.kinds) check("intermediate size", kind.mlp.intermediate_size);
  check("vocabulary", plan.vocab_size);
  if (uneven.empty()) return absl::OkStatus();
  return Unimplemented("{} ranks cannot share the model evenly: {} cannot be divided by {}", degree,
                       fmt::join(uneven, ", "), degree);
}

ModelPlan ShareOf(const ModelPlan& plan, const TensorRank& rank) {
  ModelPlan share = plan;
  ShareParts(rank, share.parts);
  for (LayerKind& kind : share.kinds) {
    kind.attention.num_heads = rank.Share(kind.attention.num_heads);
    kind.attention.num_kv_heads = rank.Share(kind.attention.num_kv_heads);
    kind.mlp.intermediate_size = rank.Share(kind.mlp.intermediate_size);
    ShareParts(rank, kind.parts);
  }
  for (KvGroupPlan& group : share.kv_groups) group.num_kv_heads = rank.Share(group.num_kv_heads);
  return share;
}

}  // namespace lockstep::worker
