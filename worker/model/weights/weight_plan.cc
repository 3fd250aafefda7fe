#include "worker/model/weights/weight_plan.h"

#include <absl/container/flat_hash_set.h>

#include <string>
#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;
using kernels::PackedElements;
using kernels::PackedMatrix;

constexpr size_t kMaxListedProblems = 8;

// Several matrices with equal inputs, stacked to one.
struct Part {
  std::string_view stem;
  int64_t num_outputs;
  bool rotary = false;
};

// One pass lays out the storage and lists the tasks. It runs twice over an Arena: measure, then
// take.
class Planner {
 public:
  struct Options {
    bool interleaved;
    WeightLayout layout;
  };
  Planner(const ModelSpec& spec, const Options& options, const WeightSource& source,
          WeightPlan& plan)
      : spec_(spec), options_(options), source_(source), plan_(plan) {}

  void Run() {
    problems_.clear();
    used_.clear();
    plan_.tasks.clear();
    plan_.weights.layers.clear();
    PlanEmbeddings();
    for (int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      plan_.weights.layers.push_back(PlanLayer(layer));
    }
    plan_.weights.final_norm = Vector(source_.names().final_norm, spec_.hidden_size);
    FindUnused();
  }

  absl::Status Verdict() const {
    if (problems_.empty()) return absl::OkStatus();
    const size_t num_listed = std::min(problems_.size(), kMaxListedProblems);
    std::string text = fmt::format(
        "{}",
        fmt::join(problems_.begin(), problems_.begin() + static_cast<ptrdiff_t>(num_listed), "; "));
    if (num_listed < problems_.size()) {
      text += fmt::format("; and {} more", problems_.size() - num_listed);
    }
    return InvalidArgument("{}: {}", source_.path(), text);
  }

 private:
  // Records a problem and returns null unless the tensor exists with this shape and a readable
  // type.
  const SourceTensor* Take(const std::string& name, const std::vector<uint64_t>& shape) {
    used_.insert(name);
    const SourceTensor* tensor = source_.Find(name);
    if (tensor == nullptr) {
      problems_.push_back(
          fmt::format("tensor {} of shape [{}] is missing", name, fmt::join(shape, ", ")));
      return nullptr;
    }
    if (tensor->shape != shape) {
      problems_.push_back(fmt::format("tensor {} has shape [{}], expected [{}]", name,
                                      fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
      return nullptr;
    }
    if (!tensor->supported) {
      problems_.push_back(
          fmt::format("tensor {} has type {}, which is not supported", name, tensor->type_name));
      return nullptr;
    }
    return tensor;
  }

  bool row_major() const { return options_.layout == WeightLayout::kRowMajor; }

  BFloat16* TakeMatrix(int64_t n, int64_t k, PackedMatrix& matrix) {
    const int64_t elements = row_major() ? n * k : PackedElements(n, k);
    BFloat16* data = plan_.weights.storage.Take<BFloat16>(elements);
    matrix = {.data = data, .n = n, .k = k};
    return data;
  }

  // Sends a task's rows to outputs [first_output, ...) of a matrix.
  void Target(BFloat16* matrix, int64_t first_output, LoadTask& task) const {
    if (row_major()) {
      task.rows = matrix == nullptr ? nullptr : matrix + first_output * task.num_columns;
    } else {
      task.packed = matrix;
      task.first_output = first_output;
    }
  }

  const float* Vector(std::string_view name, int64_t size) {
    float* data = plan_.weights.storage.Take<float>(size);
    AddVector(std::string(name), size, 0, data);
    return data;
  }

  void AddVector(const std::string& name, int64_t size, int64_t interleaved_head_dim, float* data) {
    plan_.tasks.push_back({.tensor = Take(name, {static_cast<uint64_t>(size)}),
                           .num_rows = size,
                           .num_columns = 1,
                           .vector = data,
                           .interleaved_head_dim = interleaved_head_dim});
  }

  LoadTask MatrixTask(const std::string& name, int64_t num_rows, int64_t num_columns) {
    return {
        .tensor = Take(name, {static_cast<uint64_t>(num_rows), static_cast<uint64_t>(num_columns)}),
        .num_rows = num_rows,
        .num_columns = num_columns};
  }

  void PlanEmbeddings() {
    DecoderWeights& weights = plan_.weights;
    BFloat16* rows = weights.storage.Take<BFloat16>(spec_.vocab_size * spec_.hidden_size);
    weights.token_embedding = rows;
    const bool shares_rows = spec_.tied_embeddings && row_major();
    BFloat16* lm_head_data = rows;
    if (shares_rows) {
      weights.lm_head = {.data = rows, .n = spec_.vocab_size, .k = spec_.hidden_size};
    } else {
      lm_head_data = TakeMatrix(spec_.vocab_size, spec_.hidden_size, weights.lm_head);
    }
    LoadTask embedding = MatrixTask(std::string(source_.names().token_embedding), spec_.vocab_size,
                                    spec_.hidden_size);
    embedding.rows = rows;
    const std::string lm_head_name(source_.names().lm_head);
    if (spec_.tied_embeddings) {
      if (!shares_rows) embedding.packed = lm_head_data;
      used_.insert(lm_head_name);  // a copy that some tools save; the model shares the embedding
    } else {
      LoadTask lm_head = MatrixTask(lm_head_name, spec_.vocab_size, spec_.hidden_size);
      Target(lm_head_data, 0, lm_head);
      plan_.tasks.push_back(lm_head);
    }
    plan_.tasks.push_back(embedding);
  }

  void PlanStacked(int64_t layer, const std::vector<Part>& parts, int64_t num_inputs, bool has_bias,
                   std::pair<PackedMatrix*, const float**> target) {
    int64_t num_outputs = 0;
    for (const Part& part : parts) num_outputs += part.num_outputs;
    BFloat16* matrix = TakeMatrix(num_outputs, num_inputs, *target.first);
    float* bias = has_bias ? plan_.weights.storage.Take<float>(num_outputs) : nullptr;
    *target.second = bias;
    int64_t first_output = 0;
    for (const Part& part : parts) {
      const int64_t interleaved = part.rotary && options_.interleaved ? spec_.head_dim : 0;
      LoadTask task = MatrixTask(Name(layer, part.stem, ".weight"), part.num_outputs, num_inputs);
      Target(matrix, first_output, task);
      task.interleaved_head_dim = interleaved;
      plan_.tasks.push_back(task);
      if (has_bias) {
        AddVector(Name(layer, part.stem, ".bias"), part.num_outputs, interleaved,
                  bias == nullptr ? nullptr : bias + first_output);
      }
      first_output += part.num_outputs;
    }
  }

  LayerWeights PlanLayer(int64_t layer) {
    const WeightNames& names = source_.names();
    LayerWeights weights;
    weights.attention_norm =
        Vector(Name(layer, names.attention_norm, ".weight"), spec_.hidden_size);
    PlanStacked(layer,
                {{names.q, spec_.q_size(), true},
                 {names.k, spec_.kv_size(), true},
                 {names.v, spec_.kv_size()}},
                spec_.hidden_size, spec_.qkv_bias, {&weights.qkv, &weights.qkv_bias});
    if (spec_.qk_norm) {
      weights.q_norm = Vector(Name(layer, names.q_norm, ".weight"), spec_.head_dim);
      weights.k_norm = Vector(Name(layer, names.k_norm, ".weight"), spec_.head_dim);
    }
    PlanStacked(layer, {{names.attention_output, spec_.hidden_size}}, spec_.q_size(),
                spec_.attention_output_bias,
                {&weights.attention_output, &weights.attention_output_bias});
    weights.mlp_norm = Vector(Name(layer, names.mlp_norm, ".weight"), spec_.hidden_size);
    PlanStacked(layer, {{names.gate, spec_.intermediate_size}, {names.up, spec_.intermediate_size}},
                spec_.hidden_size, spec_.mlp_bias, {&weights.gate_up, &weights.gate_up_bias});
    PlanStacked(layer, {{names.down, spec_.hidden_size}}, spec_.intermediate_size, spec_.mlp_bias,
                {&weights.down, &weights.down_bias});
    return weights;
  }

  void FindUnused() {
    for (const SourceTensor& tensor : source_.tensors()) {
      if (used_.contains(tensor.name) || IsIgnorableTensor(tensor.name)) continue;
      problems_.push_back(fmt::format("tensor {} is not part of the model", tensor.name));
    }
  }

  std::string Name(int64_t layer, std::string_view stem, std::string_view suffix) const {
    return LayerTensorName(source_.names(), layer, stem, suffix);
  }

  const ModelSpec& spec_;
  const Options options_;
  const WeightSource& source_;
  WeightPlan& plan_;
  std::vector<std::string> problems_;
  absl::flat_hash_set<std::string> used_;
};

}  // namespace

int64_t LoadTask::TargetRow(int64_t source_row) const {
  if (interleaved_head_dim == 0) return source_row;
  const int64_t head_begin = source_row / interleaved_head_dim * interleaved_head_dim;
  const int64_t row_in_head = source_row - head_begin;
  return head_begin + row_in_head % 2 * (interleaved_head_dim / 2) + row_in_head / 2;
}

absl::StatusOr<WeightPlan> PlanWeights(const ModelSpec& spec, ModelFamily family,
                                       const WeightSource& source, const WeightStorage& storage) {
  WeightPlan plan;
  Planner planner(
      spec,
      {.interleaved = source.is_gguf() && family == ModelFamily::kLlama, .layout = storage.layout},
      source, plan);
  planner.Run();
  LOCKSTEP_RETURN_IF_ERROR(planner.Verdict());
  LOCKSTEP_RETURN_IF_ERROR(storage.commit(plan.weights.storage));
  planner.Run();
  return plan;
}

}  // namespace lockstep::worker
