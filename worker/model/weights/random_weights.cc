#include "worker/model/weights/random_weights.h"

#include <cmath>
#include <string_view>

#include "common/hash.h"
#include "worker/model/weights/weight_names.h"

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

  void AddMatrix(std::string name, int64_t outputs, int64_t inputs) {
    Add(std::move(name), {static_cast<uint64_t>(outputs), static_cast<uint64_t>(inputs)}, 0.0f,
        1.0f / std::sqrt(static_cast<float>(inputs)));
  }
  void AddNorm(std::string name, int64_t size) {
    Add(std::move(name), {static_cast<uint64_t>(size)}, 1.0f, 0.1f);
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

void AddLayer(const ModelSpec& spec, int64_t layer, TensorList& list) {
  const WeightNames& names = kHuggingFaceNames;
  const auto projection = [&](std::string_view stem, int64_t outputs, int64_t inputs, bool bias) {
    list.AddMatrix(LayerTensorName(names, layer, stem, ".weight"), outputs, inputs);
    if (bias) list.AddBias(LayerTensorName(names, layer, stem, ".bias"), outputs);
  };
  const auto norm = [&](std::string_view stem, int64_t size) {
    list.AddNorm(LayerTensorName(names, layer, stem, ".weight"), size);
  };
  norm(names.attention_norm, spec.hidden_size);
  projection(names.q, spec.q_size(), spec.hidden_size, spec.qkv_bias);
  projection(names.k, spec.kv_size(), spec.hidden_size, spec.qkv_bias);
  projection(names.v, spec.kv_size(), spec.hidden_size, spec.qkv_bias);
  if (spec.qk_norm) {
    norm(names.q_norm, spec.head_dim);
    norm(names.k_norm, spec.head_dim);
  }
  projection(names.attention_output, spec.hidden_size, spec.q_size(), spec.attention_output_bias);
  norm(names.mlp_norm, spec.hidden_size);
  projection(names.gate, spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
  projection(names.up, spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
  projection(names.down, spec.hidden_size, spec.intermediate_size, spec.mlp_bias);
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

std::vector<RandomTensorShape> RandomTensors(const ModelSpec& spec, uint64_t seed) {
  TensorList list(seed);
  list.AddMatrix(std::string(kHuggingFaceNames.token_embedding), spec.vocab_size, spec.hidden_size);
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) AddLayer(spec, layer, list);
  list.AddNorm(std::string(kHuggingFaceNames.final_norm), spec.hidden_size);
  if (!spec.tied_embeddings) {
    list.AddMatrix(std::string(kHuggingFaceNames.lm_head), spec.vocab_size, spec.hidden_size);
  }
  return list.Take();
}

}  // namespace lockstep::worker
