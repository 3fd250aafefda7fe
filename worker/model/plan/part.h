#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/model_files/model_family.h"

// The parts of a model as data. The names and shapes of its tensors, random weights, where the
// weights go in memory, and the products that are planned all follow from them.
namespace lockstep::worker {

enum class PartKind {
  kEmbedding,  // rows that are looked up
  kNorm,       // a weight, and perhaps a bias
  kLinear,     // a matrix product, and perhaps a bias
};

// A tensor of a checkpoint that holds `num_outputs` of a part's outputs.
struct TensorPiece {
  std::string_view TensorNames::* name = nullptr;
  int64_t num_outputs = 0;
  int64_t rotary_head_dim = 0;  // the outputs are rotated heads of this size; 0: they are not
  // Outputs of the matrices that lie in the tensor one behind the other, such as q, k and v. Ranks
  // share each of them. Empty: one matrix.
  std::vector<int64_t> matrix_outputs = {};
};

struct Part {
  PartKind kind = PartKind::kLinear;
  int64_t num_outputs = 0;  // of a norm: its size; of an embedding: its rows
  int64_t num_inputs = 1;   // of a norm: 1; of an embedding: the size of a row
  bool has_bias = false;
  std::vector<TensorPiece> pieces = {};  // their outputs follow each other; empty: there is no such
                                         // part
  // The name of one tensor that holds all pieces, in files that have it. Null: no file has.
  std::string_view TensorNames::* joined = nullptr;

  bool exists() const { return !pieces.empty(); }
};

// The parts of a layer, in the order of their use.
enum class LayerPart {
  kAttentionNorm,
  kQkv,    // [q_size + 2 * kv_size, hidden_size]: q, k, v
  kQNorm,  // of each head
  kKNorm,
  kAttentionOutput,
  kMlpNorm,
  kMlpInput,   // gated: [2 * intermediate_size, hidden_size]: gate, up
  kMlpOutput,  // [hidden_size, intermediate_size]
  kCount
};

enum class ModelPart { kTokenEmbedding, kPositionEmbedding, kFinalNorm, kLmHead, kCount };

}  // namespace lockstep::worker
