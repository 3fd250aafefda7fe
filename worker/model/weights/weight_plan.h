#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "worker/model/plan/model_plan.h"
#include "worker/model/plan/tensor_rank.h"
#include "worker/model/weights/weight_source.h"
#include "worker/model/weights/weights.h"

namespace lockstep::worker {

// Where the values of a tensor go, or those of some of its rows. Row i of the task becomes row i of
// `rows`, if that is set. It becomes output first_output + i of `panels`, if that is set and has so
// many outputs. A vector goes to `vector`.
struct LoadTask {
  const SourceTensor* tensor = nullptr;
  int64_t tensor_rows = 0;  // of the whole tensor: outputs of a matrix, or elements of a vector
  int64_t first_row = 0;    // the tensor's rows from here on
  int64_t num_rows = 0;
  int64_t num_columns = 0;  // inputs; 1 for a vector
  kernels::BFloat16* panels = nullptr;
  int64_t first_output = 0;
  int64_t panel_outputs = 0;
  kernels::BFloat16* rows = nullptr;  // of this task's first row
  float* vector = nullptr;
  // The head size if the rows are rotated and TensorNames::interleaved_heads is set; otherwise 0.
  int64_t interleaved_head_dim = 0;
  bool transposed = false;  // the file has [num_columns, tensor_rows]
  float added = 0.0f;       // to every value of a vector

  // fp32 values of the task's rows [row, row + values.size() / num_columns), also if the file is
  // transposed. For a transposed tensor, every call reads the whole tensor.
  absl::Status Read(int64_t row, std::span<float> values) const;
  // The task's rows in our order, as codes. The tensor must have them.
  absl::StatusOr<kernels::QuantizedMatrix> ReadCodes() const;
  // The place in our order of the task's row `row`.
  int64_t TargetRow(int64_t row) const;
};

// The matrix of a linear part that stays packed. It consists of the rows of the pieces, one below
// the other. The targets of the pieces are not set.
struct PackTask {
  PartPlace place;
  std::vector<LoadTask> pieces;
};

// How matrices in bf16 lie in memory.
enum class WeightLayout {
  kPanels,    // as the CPU GEMM reads them (kernels/gemm/packed_matrix.h)
  kRowMajor,  // [outputs, inputs], as CUDA does; a tied lm_head is the embedding itself
};

// Where the weights go, and which of them. `commit` gives the measured arena its memory.
struct WeightStorage {
  WeightLayout layout = WeightLayout::kPanels;
  // Matrices that the file has as codes stay packed.
  bool packs = false;
  // Then a product of which the file has only some matrices as codes is an error, not bf16.
  bool packs_whole_products = false;
  // Takes this rank's outputs of every linear part. Norms and embeddings stay whole.
  TensorRank rank = {};
  // Another rank's weights in the same memory. Their embeddings are used, and not loaded again.
  const ModelWeights* embeddings_of = nullptr;
  std::function<absl::Status(Arena&)> commit = [](Arena& arena) { return arena.Commit(); };
};

struct WeightPlan {
  ModelWeights weights;  // laid out and zeroed, to be filled by the tasks
  std::vector<LoadTask> tasks;
  std::vector<PackTask> packs;  // of the matrices that are not in `tasks`
};

// Compares the checkpoint with what the model needs. INVALID_ARGUMENT names tensors that are
// missing, have another shape than expected or a type that cannot be read, or that nothing would
// use: at most eight tensors, and the number of the others. `source` must outlive the tasks.
absl::StatusOr<WeightPlan> PlanWeights(const ModelPlan& model, const WeightSource& source,
                                       const WeightStorage& storage = {});

// Tasks that give these matrices a place in weights.unpacked_storage, in bf16.
absl::StatusOr<std::vector<LoadTask>> PlanUnpacked(const std::vector<PackTask>& packs,
                                                   const WeightStorage& storage,
                                                   ModelWeights& weights);

}  // namespace lockstep::worker
