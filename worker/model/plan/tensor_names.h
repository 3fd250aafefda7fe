#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/model_family.h"
#include "worker/model/plan/part.h"

namespace lockstep::worker {

// How files name and arrange the tensors of one layer, or those outside the layers.
struct TensorNaming {
  const TensorNames& names;
  int64_t layer = -1;  // -1: outside the layers

  // "model.norm.weight", or "model.layers.3.self_attn.q_proj.bias".
  std::string NameOf(std::string_view TensorNames::* stem, std::string_view ending) const;
  // The tensors that hold the part's outputs, one behind the other.
  std::vector<TensorPiece> PiecesOf(const Part& part) const;
  // Whether files have the part's matrices as [inputs, outputs].
  bool IsTransposed(const Part& part) const;
};

// A tensor that files carry although nothing needs it.
bool IsIgnorableTensor(const TensorNames& names, std::string_view name);

}  // namespace lockstep::worker
