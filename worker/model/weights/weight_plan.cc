#include "worker/model/weights/weight_plan.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/shown_text.h"
#include "common/status.h"
#include "kernels/formats/stack_rows.h"
#include "kernels/gemm/packed_matrix.h"
#include "worker/model/plan/tensor_names.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;
using kernels::PackedElements;

constexpr size_t kMaxListedProblems = 8;
constexpr size_t kMaxListedUnused = 2;  // places kept for unused tensors, if there are any

bool HasCodesIn(const LoadTask& task) { return task.tensor != nullptr && HasCodes(*task.tensor); }

bool IsPackable(const LoadTask& task) { return HasCodesIn(task) && !task.transposed; }

// Takes memory for a matrix in bf16, and lists the tasks that fill it.
void PlanMatrix(std::vector<LoadTask> pieces, bool row_major, Arena& storage,
                kernels::WeightMatrix& matrix, std::vector<LoadTask>& tasks) {
  BFloat16* const values =
      storage.Take<BFloat16>(row_major ? matrix.n * matrix.k : PackedElements(matrix.n, matrix.k));
  matrix.data = values;
  int64_t first_output = 0;
  for (LoadTask& task : pieces) {
    if (row_major) {
      task.rows = values == nullptr ? nullptr : values + first_output * matrix.k;
    } else {
      task.panels = values;
      task.first_output = first_output;
      task.panel_outputs = matrix.n;
    }
    first_output += task.num_rows;
    tasks.push_back(std::move(task));
  }
}

// One pass lays out the storage and lists the tasks. It runs twice over an Arena: measure, then
// take.
class Planner {
 public:
  Planner(const ModelPlan& model, const WeightSource& source, const WeightStorage& storage,
          WeightPlan& plan)
      : model_(model),
        source_(source),
        row_major_(storage.layout == WeightLayout::kRowMajor),
        packs_(storage.packs),
        packs_whole_products_(storage.packs_whole_products),
        rank_(storage.rank),
        embeddings_of_(storage.embeddings_of),
        plan_(plan) {}

  void Run() {
    problems_.clear();
    used_.clear();
    plan_.tasks.clear();
    plan_.packs.clear();
    ModelWeights& weights = plan_.weights;
    weights.layers.clear();
    for (const ModelPart part : EnumValues<ModelPart>()) {
      if (part == ModelPart::kLmHead && model_.tied_embeddings) continue;
      weights.model[part] = PlanPart(model_.parts[part], {.model_part = part});
      const bool is_embedding = model_.parts[part].kind == PartKind::kEmbedding;
      if (is_embedding && embeddings_of_ != nullptr) {
        weights.model[part] = embeddings_of_->model[part];
      }
    }
    if (model_.tied_embeddings) ShareEmbedding();
    for (int64_t layer = 0; layer < model_.num_layers(); ++layer) {
      const LayerKind& kind = model_.KindOf(layer);
      LayerWeights& of_layer = weights.layers.emplace_back();
      for (const LayerPart part : EnumValues<LayerPart>()) {
        of_layer[part] = PlanPart(kind.parts[part], {.layer = layer, .layer_part = part});
      }
    }
    FindUnused();
  }

  absl::Status Verdict() const {
    if (problems_.empty()) return absl::OkStatus();
    // Show both kinds: after a typo, the right name is missing and the wrong name is unused.
    const size_t num_unused = std::min(problems_.size() - num_wanted_problems_, kMaxListedUnused);
    const size_t num_wanted = std::min(num_wanted_problems_, kMaxListedProblems - num_unused);
    std::vector<std::string_view> listed(problems_.begin(),
                                         problems_.begin() + static_cast<ptrdiff_t>(num_wanted));
    for (size_t i = num_wanted_problems_;
         i < problems_.size() && listed.size() < kMaxListedProblems; ++i) {
      listed.push_back(problems_[i]);
    }
    const size_t num_left = problems_.size() - listed.size();
    return InvalidArgument("{}: {}{}", source_.path(), fmt::join(listed, "; "),
                           num_left == 0 ? "" : fmt::format("; and {} more", num_left));
  }

 private:
  PartWeights PlanPart(const Part& part, const PartPlace& place) {
    if (!part.exists()) return {};
    const TensorNaming naming = {.names = source_.names(), .layer = place.layer};
    switch (part.kind) {
      case PartKind::kEmbedding:
        return PlanEmbedding(part, naming);
      case PartKind::kNorm:
        return PlanNorm(part, naming);
      case PartKind::kLinear:
        break;
    }
    return PlanLinear(part, place, naming);
  }

  PartWeights PlanEmbedding(const Part& part, const TensorNaming& naming) {
    LoadTask task = MatrixTask(part, part.pieces[0], naming);
    if (embeddings_of_ != nullptr) return {};
    BFloat16* const rows = plan_.weights.storage.Take<BFloat16>(part.num_outputs * part.num_inputs);
    task.num_rows = part.num_outputs;
    task.rows = rows;
    plan_.tasks.push_back(task);
    return {.rows = rows};
  }

  PartWeights PlanNorm(const Part& part, const TensorNaming& naming) {
    float* const weight = plan_.weights.storage.Take<float>(part.num_outputs);
    float* const bias = TakeBias(part, part.num_outputs);
    const TensorPiece& piece = part.pieces[0];
    plan_.tasks.push_back(
        VectorTask(naming.NameOf(piece.name, "weight"), part.num_outputs, weight));
    plan_.tasks.back().added = naming.names.norms_lack_one ? 1.0f : 0.0f;
    if (part.has_bias) {
      plan_.tasks.push_back(VectorTask(naming.NameOf(piece.name, "bias"), part.num_outputs, bias));
    }
    return {.vector = weight, .bias = bias};
  }

  // This rank's outputs of every matrix, one behind the other.
  PartWeights PlanLinear(const Part& part, const PartPlace& place, const TensorNaming& naming) {
    const int64_t num_outputs = rank_.Share(part.num_outputs);
    std::vector<LoadTask> matrices;
    float* const bias = TakeBias(part, num_outputs);
    int64_t first_output = 0;
    for (const TensorPiece& piece : naming.PiecesOf(part)) {
      LoadTask task = MatrixTask(part, piece, naming);
      LoadTask vector =
          part.has_bias ? VectorTask(naming.NameOf(piece.name, "bias"), piece.num_outputs, nullptr)
                        : LoadTask();
      int64_t first_row = 0;
      for (const int64_t matrix_outputs : MatricesOf(piece)) {
        task.first_row = vector.first_row = first_row + rank_.Begin(matrix_outputs);
        task.num_rows = vector.num_rows = rank_.Share(matrix_outputs);
        matrices.push_back(task);
        if (part.has_bias) {
          vector.interleaved_head_dim = task.interleaved_head_dim;
          vector.vector = bias == nullptr ? nullptr : bias + first_output;
          plan_.tasks.push_back(vector);
        }
        first_row += matrix_outputs;
        first_output += task.num_rows;
      }
    }
    PartWeights weights = {.matrix = {.n = num_outputs, .k = part.num_inputs}, .bias = bias};
    if (packs_ && std::ranges::all_of(matrices, IsPackable)) {
      plan_.packs.push_back({.place = place, .pieces = std::move(matrices)});
    } else {
      if (packs_whole_products_) RefuseCodesIn(matrices);
      PlanMatrix(std::move(matrices), row_major_, plan_.weights.storage, weights.matrix,
                 plan_.tasks);
    }
    return weights;
  }

  // Records a problem if some matrices of a product that is not packed have codes.
  void RefuseCodesIn(const std::vector<LoadTask>& matrices) {
    const auto codes = std::ranges::find_if(matrices, HasCodesIn);
    if (codes == matrices.end()) return;
    const auto other = std::ranges::find_if_not(matrices, IsPackable);
    if (other->tensor == nullptr) return;  // it is missing, which is a problem already
    problems_.push_back(
        other == codes
            ? fmt::format("tensor {} is quantised, and stored transposed",
                          ShownName(codes->tensor->name))
            : fmt::format("tensor {} is quantised, but {}, of the same product, is not",
                          ShownName(codes->tensor->name), ShownName(other->tensor->name)));
  }

  // The logits are products with the embedding. The first rank loads it once, for both uses.
  void ShareEmbedding() {
    const Part& part = model_.parts[ModelPart::kLmHead];
    const TensorNaming naming = {.names = source_.names()};
    ModelWeights& weights = plan_.weights;
    PartWeights& lm_head = weights.model[ModelPart::kLmHead];
    lm_head.matrix = {.n = rank_.Share(part.num_outputs), .k = part.num_inputs};
    const int64_t first_output = rank_.Begin(part.num_outputs);
    if (row_major_) {
      const BFloat16* const rows = weights.model[ModelPart::kTokenEmbedding].rows;
      lm_head.matrix.data = rows == nullptr ? nullptr : rows + first_output * part.num_inputs;
    } else {
      BFloat16* const packed =
          weights.storage.Take<BFloat16>(PackedElements(lm_head.matrix.n, part.num_inputs));
      lm_head.matrix.data = packed;
      if (rank_.rank > 0) {
        const Part& embedding = model_.parts[ModelPart::kTokenEmbedding];
        LoadTask own_rows = MatrixTask(embedding, embedding.pieces[0], naming);
        own_rows.first_row = first_output;
        own_rows.num_rows = lm_head.matrix.n;
        plan_.tasks.insert(plan_.tasks.begin(), own_rows);
      }
      LoadTask& task = plan_.tasks.front();  // of the embedding, the model's first part
      task.panels = packed;
      task.panel_outputs = lm_head.matrix.n;
    }
    // Some tools save a copy as lm_head. It counts as used, although it is not read.
    used_.insert(naming.NameOf(&TensorNames::lm_head, "weight"));
  }

  float* TakeBias(const Part& part, int64_t num_outputs) {
    return part.has_bias ? plan_.weights.storage.Take<float>(num_outputs) : nullptr;
  }

  // One rank reads a tensor in one task: every read of a transposed one goes through all of it.
  std::vector<int64_t> MatricesOf(const TensorPiece& piece) const {
    if (rank_.degree == 1 || piece.matrix_outputs.empty()) return {piece.num_outputs};
    return piece.matrix_outputs;
  }

  // Of no rows yet.
  LoadTask MatrixTask(const Part& part, const TensorPiece& piece, const TensorNaming& naming) {
    const bool transposed = naming.IsTransposed(part);
    std::vector<uint64_t> shape = {static_cast<uint64_t>(piece.num_outputs),
                                   static_cast<uint64_t>(part.num_inputs)};
    if (transposed) std::swap(shape[0], shape[1]);
    return {.tensor = Take(naming.NameOf(piece.name, "weight"), shape),
            .tensor_rows = piece.num_outputs,
            .num_columns = part.num_inputs,
            .interleaved_head_dim = naming.names.interleaved_heads ? piece.rotary_head_dim : 0,
            .transposed = transposed};
  }

  LoadTask VectorTask(const std::string& name, int64_t size, float* vector) {
    return {.tensor = Take(name, {static_cast<uint64_t>(size)}),
            .tensor_rows = size,
            .num_rows = size,
            .num_columns = 1,
            .vector = vector};
  }

  const SourceTensor* Find(const std::string& name) {
    if (const SourceTensor* tensor = source_.Find(name)) return tensor;
    const std::string_view prefix = source_.names().optional_prefix;
    if (prefix.empty() || !name.starts_with(prefix)) return nullptr;
    return source_.Find(std::string_view(name).substr(prefix.size()));
  }

  // Records a problem and returns null unless the tensor exists with this shape and a readable
  // type.
  const SourceTensor* Take(const std::string& name, const std::vector<uint64_t>& shape) {
    const SourceTensor* const tensor = Find(name);
    if (tensor == nullptr) {
      problems_.push_back(
          fmt::format("tensor {} of shape [{}] is missing", name, fmt::join(shape, ", ")));
      return nullptr;
    }
    used_.insert(tensor->name);
    if (tensor->shape != shape) {
      problems_.push_back(fmt::format("tensor {} has shape [{}], expected [{}]",
                                      ShownName(tensor->name), ShownNumbers(tensor->shape),
                                      fmt::join(shape, ", ")));
      return nullptr;
    }
    if (!tensor->supported) {
      problems_.push_back(fmt::format("tensor {} has type {}, which is not supported",
                                      ShownName(tensor->name), tensor->type_name));
      return nullptr;
    }
    return tensor;
  }

  void FindUnused() {
    num_wanted_problems_ = problems_.size();
    for (const SourceTensor& tensor : source_.tensors()) {
      if (used_.contains(tensor.name) || tensor.may_be_unused) continue;
      if (IsIgnorableTensor(source_.names(), tensor.name)) continue;
      problems_.push_back(
          fmt::format("tensor {} is not part of the model", ShownName(tensor.name)));
    }
  }

  const ModelPlan& model_;
  const WeightSource& source_;
  const bool row_major_;
  const bool packs_;
  const bool packs_whole_products_;
  const TensorRank rank_;
  const ModelWeights* const embeddings_of_;  // null: they are loaded
  WeightPlan& plan_;
  std::vector<std::string> problems_;  // first of tensors that the model wants, then of others
  size_t num_wanted_problems_ = 0;
  absl::flat_hash_set<std::string> used_;
};

}  // namespace

absl::Status LoadTask::Read(int64_t row, std::span<float> values) const {
  const int64_t tensor_row = first_row + row;
  if (!transposed) {
    LOCKSTEP_RETURN_IF_ERROR(ReadRows(*tensor, tensor_row, num_columns, values));
    if (added != 0.0f) std::ranges::for_each(values, [this](float& value) { value += added; });
    return absl::OkStatus();
  }
  const int64_t num_wanted = static_cast<int64_t>(values.size()) / num_columns;
  std::vector<float> file_row(static_cast<size_t>(tensor_rows));
  for (int64_t column = 0; column < num_columns; ++column) {
    LOCKSTEP_RETURN_IF_ERROR(ReadRows(*tensor, column, tensor_rows, file_row));
    for (int64_t i = 0; i < num_wanted; ++i) {
      values[static_cast<size_t>(i * num_columns + column)] =
          file_row[static_cast<size_t>(tensor_row + i)];
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::QuantizedMatrix> LoadTask::ReadCodes() const {
  LOCKSTEP_ASSIGN_OR_RETURN(kernels::QuantizedMatrix matrix, worker::ReadCodes(*tensor));
  if (num_rows == tensor_rows && interleaved_head_dim == 0) return matrix;
  std::vector<int64_t> order(static_cast<size_t>(num_rows));
  for (int64_t row = 0; row < num_rows; ++row) {
    order[static_cast<size_t>(TargetRow(row))] = first_row + row;
  }
  return kernels::TakeRows(matrix, order);
}

int64_t LoadTask::TargetRow(int64_t row) const {
  if (interleaved_head_dim == 0) return row;
  const int64_t head_begin = row / interleaved_head_dim * interleaved_head_dim;
  const int64_t row_in_head = row - head_begin;
  return head_begin + row_in_head % 2 * (interleaved_head_dim / 2) + row_in_head / 2;
}

absl::StatusOr<WeightPlan> PlanWeights(const ModelPlan& model, const WeightSource& source,
                                       const WeightStorage& storage) {
  WeightPlan plan;
  Planner planner(model, source, storage, plan);
  planner.Run();
  LOCKSTEP_RETURN_IF_ERROR(planner.Verdict());
  LOCKSTEP_RETURN_IF_ERROR(storage.commit(plan.weights.storage));
  planner.Run();
  return plan;
}

absl::StatusOr<std::vector<LoadTask>> PlanUnpacked(const std::vector<PackTask>& packs,
                                                   const WeightStorage& storage,
                                                   ModelWeights& weights) {
  std::vector<LoadTask> tasks;
  if (packs.empty()) return tasks;
  const auto lay_out = [&] {
    tasks.clear();
    for (const PackTask& pack : packs) {
      PlanMatrix(pack.pieces, storage.layout == WeightLayout::kRowMajor, weights.unpacked_storage,
                 weights.At(pack.place).matrix, tasks);
    }
  };
  lay_out();
  LOCKSTEP_RETURN_IF_ERROR(storage.commit(weights.unpacked_storage));
  lay_out();
  return tasks;
}

}  // namespace lockstep::worker
