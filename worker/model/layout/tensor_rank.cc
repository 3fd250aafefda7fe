#include "worker/model/layout/tensor_rank.h"

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace lockstep::worker {

absl::Status CheckDegree(const ModelSpec& spec, int64_t degree) {
  if (degree < 1) return InvalidArgument("a tensor-parallel group of {} ranks", degree);
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"heads", spec.num_heads},
      {"KV heads", spec.num_kv_heads},
      {"hidden size", spec.hidden_size},
      {"intermediate size", spec.intermediate_size},
      {"vocabulary", spec.vocab_size}};
  std::vector<std::string> uneven;
  for (const auto& [name, size] : sizes) {
    if (size % degree != 0) uneven.push_back(fmt::format("{} ({})", name, size));
  }
  if (uneven.empty()) return absl::OkStatus();
  return Unimplemented("{} ranks cannot share the model evenly: {} cannot be divided by {}", degree,
                       fmt::join(uneven, ", "), degree);
}

ModelSpec ShareOf(const ModelSpec& spec, const TensorRank& rank) {
  ModelSpec share = spec;
  share.num_heads = rank.Share(spec.num_heads);
  share.num_kv_heads = rank.Share(spec.num_kv_heads);
  share.intermediate_size = rank.Share(spec.intermediate_size);
  return share;
}

}  // namespace lockstep::worker
