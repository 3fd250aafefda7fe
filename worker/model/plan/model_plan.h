#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/model_files/model_config.h"
#include "worker/model/plan/enum_array.h"
#include "worker/model/plan/kv_group_plan.h"
#include "worker/model/plan/layer_kind.h"
#include "worker/model/plan/part.h"

namespace lockstep::worker {

// The rotation angles of q and k. The backend has a table of them.
struct RotationPlan {
  RopeConfig rope;
  int64_t head_dim = 0;

  friend bool operator==(const RotationPlan&, const RotationPlan&) = default;
};

// One layer of a model.
struct LayerPlan {
  size_t kind = 0;             // of ModelPlan::kinds
  int64_t index_in_group = 0;  // of the layers of its KV group
};

// What a model computes, as data. A decoder starts with the token's embedding, and adds the
// position's embedding if positions are learned. The layers follow, each of one of the kinds
// (layer_kind.h), then a final norm and the logits. A new kind of part becomes a value here, a part
// (part.h) and a file of worker/model/layers/.
struct ModelPlan {
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_context_tokens = 0;
  NormKind norm = NormKind::kRms;
  float norm_eps = 0.0f;
  PositionKind positions = PositionKind::kRotary;
  bool tied_embeddings = false;
  EnumArray<ModelPart, Part> parts = {};
  std::vector<LayerKind> kinds = {};         // at least one; every kind has a layer
  std::vector<LayerPlan> layers = {};        // in order
  std::vector<RotationPlan> rotations = {};  // at least one
  std::vector<KvGroupPlan> kv_groups = {};   // at least one; every layer is in one

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  const LayerKind& KindOf(int64_t layer) const {
    return kinds[layers[static_cast<size_t>(layer)].kind];
  }
  // 0: no layer has a window.
  int64_t ShortestWindow() const;
};

// Every KV group has the type. UNIMPLEMENTED naming the value for sizes that the kernels do not
// take.
absl::StatusOr<ModelPlan> MakeModelPlan(const ModelConfig& config,
                                        kernels::KvType kv_type = kernels::KvType::kBFloat16);

}  // namespace lockstep::worker
