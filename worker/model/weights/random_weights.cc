#include "worker/model/weights/random_weights.h"

#include <cmath>
#include <utility>

#include "common/hash.h"
#include "worker/model/plan/tensor_names.h"

namespace lockstep::worker {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class TensorList {
 public:
  explicit TensorList(uint64_t seed) : seed_(seed) {}

  void AddMatrix(std::string name, int64_t outputs, int64_t inputs, bool transposed) {
    std::vector<uint64_t> shape = {static_cast<uint64_t>(outputs), static_cast<uint64_t>(inputs)};
    if (transposed) std::swap(shape[0], shape[1]);
    Add(std::move(name), std::move(shape), 0.0f, 1.0f / std::sqrt(static_cast<float>(inputs)));
  }
  void MarkLinear() { tensors_.back().is_linear = true; }
  void AddNorm(std::string name, int64_t size, float mean) {
    Add(std::move(name), {static_cast<uint64_t>(size)}, mean, 0.1f);
  }
  void AddBias(std::string name, int64_t size) {
    Add(std::move(name), {static_cast<uint64_t>(size)}, 0.0f, 0.1f);
  }
  std::vector<RandomTensorShape> Take() { return std::move(tensors_); }

 private:
  void Add(std::string name, std::vector<uint64_t> shape, float mean, float deviation) {
    const uint64_t seed = Hash64(name, seed_);
    tensors_.push_back({.name = std::move(name),
                        .shape = std::move(shape),
                        .values = {.seed = seed, .mean = mean, .deviation = deviation}});
  }

  const uint64_t seed_;
  std::vector<RandomTensorShape> tensors_;
};

void AddPart(const Part& part, const TensorNaming& naming, TensorList& list) {
  if (!part.exists()) return;
  const bool transposed = naming.IsTransposed(part);
  for (const TensorPiece& piece : naming.PiecesOf(part)) {
    std::string name = naming.NameOf(piece.name, "weight");
    if (part.kind == PartKind::kNorm) {
      list.AddNorm(std::move(name), piece.num_outputs, naming.names.norms_lack_one ? 0.0f : 1.0f);
    } else {
      list.AddMatrix(std::move(name), piece.num_outputs, part.num_inputs, transposed);
      if (part.kind == PartKind::kLinear && !transposed) list.MarkLinear();
    }
    if (part.has_bias) list.AddBias(naming.NameOf(piece.name, "bias"), piece.num_outputs);
  }
}

}  // namespace

void FillRandom(const RandomTensor& tensor, uint64_t first, std::span<float> values) {
  // Four uniform numbers in [0, 65535] have mean 4 * 32767.5 and variance 4 * (65536^2 - 1) / 12.
  constexpr float kMean = 131070.0f;
  const float scale = tensor.deviation / std::sqrt((65536.0f * 65536.0f - 1.0f) / 3.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = Mix(tensor.seed + (first + i) * 0x9E3779B97F4A7C15u);
    const uint32_t sum = static_cast<uint32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                               (bits >> 32 & 0xFFFF) + (bits >> 48));
    values[i] = tensor.mean + scale * (static_cast<float>(sum) - kMean);
  }
}

std::vector<RandomTensorShape> RandomTensors(const ModelPlan& plan, const TensorNames& names,
                                             uint64_t seed) {
  TensorList list(seed);
  for (const ModelPart part : EnumValues<ModelPart>()) {
    if (part == ModelPart::kLmHead && plan.tied_embeddings) continue;
    AddPart(plan.parts[part], {.names = names}, list);
  }
  for (int64_t layer = 0; layer < plan.num_layers(); ++layer) {
    const LayerKind& kind = plan.KindOf(layer);
    for (const LayerPart part : EnumValues<LayerPart>()) {
      AddPart(kind.parts[part], {.names = names, .layer = layer}, list);
    }
  }
  return list.Take();
}

}  // namespace lockstep::worker
