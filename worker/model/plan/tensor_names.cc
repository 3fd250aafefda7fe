#include "worker/model/plan/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::worker {

std::string TensorNaming::NameOf(std::string_view TensorNames::* stem,
                                 std::string_view ending) const {
  if (layer < 0) return fmt::format("{}.{}", names.*stem, ending);
  return fmt::format("{}{}.{}.{}", names.layer_prefix, layer, names.*stem, ending);
}

std::vector<TensorPiece> TensorNaming::PiecesOf(const Part& part) const {
  if (part.joined == nullptr || (names.*part.joined).empty()) return part.pieces;
  TensorPiece all = {.name = part.joined, .num_outputs = part.num_outputs};
  for (const TensorPiece& piece : part.pieces) all.matrix_outputs.push_back(piece.num_outputs);
  return {all};
}

bool TensorNaming::IsTransposed(const Part& part) const {
  return names.transposed_matrices && layer >= 0 && part.kind == PartKind::kLinear;
}

bool IsIgnorableTensor(const TensorNames& names, std::string_view name) {
  // Saved rotary buffers, and GGUF's divisors of rotary frequencies, which are read with the
  // config.
  if (name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight") return true;
  return std::any_of(names.ignored_endings.begin(), names.ignored_endings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace lockstep::worker
