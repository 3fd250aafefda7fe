#include "tests/worker/model/plain_pebble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "common/check.h"
#include "kernels/core/bfloat16.h"
#include "tests/worker/model/toy_family.h"

namespace lockstep::worker {
namespace {

constexpr size_t kHidden = 32;
constexpr size_t kInner = 48;
constexpr size_t kLayers = 4;
constexpr size_t kHeads = 4;
constexpr size_t kKvHeads = 2;
constexpr size_t kHeadDim = 16;
constexpr size_t kVocab = 64;
constexpr double kNormEps = 1e-5;

using Rows = std::vector<std::vector<double>>;  // [tokens][columns]

class Maker {
 public:
  // Values with a standard deviation of `std` around `mean`.
  void Add(std::string_view stem, std::vector<uint64_t> shape, double std, double mean = 0.0) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    TestTensor tensor{
        .name = fmt::format("{}{}.weight", prefix, stem), .shape = std::move(shape), .values = {}};
    std::normal_distribution<double> normal(mean, std);
    for (uint64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(normal(generator_));
      tensor.values.push_back(kernels::ToFloat(kernels::ToBFloat16(value)));
    }
    tensors.push_back(std::move(tensor));
  }
  void AddMatrix(std::string_view stem, size_t rows, size_t columns) {
    Add(stem, {rows, columns}, 1.2 / std::sqrt(static_cast<double>(columns)));
  }

  std::string prefix;
  std::vector<TestTensor> tensors;

 private:
  std::mt19937 generator_{5};
};

class Plain {
 public:
  Plain(std::span<const TestTensor> tensors, std::span<const TokenId> tokens)
      : tensors_(tensors), tokens_(tokens) {
    const std::vector<float>& words = Weight(names_.token_embedding);
    for (const TokenId token : tokens) {
      const auto row = words.begin() + static_cast<ptrdiff_t>(token * kHidden);
      residual_.emplace_back(row, row + kHidden);
    }
  }

  void Layer(size_t layer, const PlainLayerKind& kind) {
    prefix_ = fmt::format("{}{}.", names_.layer_prefix, layer);
    const Rows normed = Norm(residual_, names_.attention_norm);
    Rows q = Product(normed, names_.q);
    Rows k = Product(normed, names_.k);
    const Rows v = Product(normed, names_.v);
    NormAndRotate(q, names_.q_norm, kind.rope_theta);
    NormAndRotate(k, names_.k_norm, kind.rope_theta);
    Rows attention;
    for (size_t position = 0; position < tokens_.size(); ++position) {
      attention.push_back(Attend(q[position], k, v, position, kind.window_tokens));
    }
    Add(Product(attention, names_.attention_output));
    const Rows input = Norm(residual_, names_.mlp_norm);
    Rows inner = Product(input, names_.gate);
    const Rows up = Product(input, names_.up);
    for (size_t i = 0; i < inner.size(); ++i) {
      for (size_t j = 0; j < kInner; ++j) inner[i][j] *= up[i][j] / (1.0 + std::exp(-inner[i][j]));
    }
    Add(Product(inner, names_.down));
    prefix_.clear();
  }

  std::vector<float> Logits() {
    std::vector<float> logits;
    for (const std::vector<double>& row :
         Product(Norm(residual_, names_.final_norm), names_.lm_head)) {
      for (const double value : row) logits.push_back(static_cast<float>(value));
    }
    return logits;
  }

 private:
  const std::vector<float>& Weight(std::string_view stem) const {
    const std::string name = fmt::format("{}{}.weight", prefix_, stem);
    const auto found = std::ranges::find(tensors_, name, &TestTensor::name);
    LOCKSTEP_CHECK(found != tensors_.end(), "no tensor {}", name);
    return found->values;
  }

  // Each row times the [outputs, inputs] matrix.
  Rows Product(const Rows& rows, std::string_view stem) const {
    const std::vector<float>& weight = Weight(stem);
    const size_t num_inputs = rows.front().size();
    Rows result;
    for (const std::vector<double>& row : rows) {
      std::vector<double>& outputs = result.emplace_back(weight.size() / num_inputs, 0.0);
      for (size_t i = 0; i < weight.size(); ++i) {
        outputs[i / num_inputs] += static_cast<double>(weight[i]) * row[i % num_inputs];
      }
    }
    return result;
  }

  // RMSNorm of values [begin, begin + size of the weight) of a row.
  static void NormPart(std::vector<double>& row, size_t begin, const std::vector<float>& weight) {
    double squares = 0.0;
    for (size_t i = 0; i < weight.size(); ++i) squares += row[begin + i] * row[begin + i];
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(weight.size()) + kNormEps);
    for (size_t i = 0; i < weight.size(); ++i) {
      row[begin + i] *= factor * static_cast<double>(weight[i]);
    }
  }

  Rows Norm(Rows rows, std::string_view stem) const {
    for (std::vector<double>& row : rows) NormPart(row, 0, Weight(stem));
    return rows;
  }

  void NormAndRotate(Rows& rows, std::string_view norm, double theta) const {
    constexpr size_t kHalf = kHeadDim / 2;
    for (size_t position = 0; position < rows.size(); ++position) {
      for (size_t head = 0; head < rows[position].size(); head += kHeadDim) {
        NormPart(rows[position], head, Weight(norm));
        for (size_t i = 0; i < kHalf; ++i) {
          const double angle =
              static_cast<double>(position) *
              std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(kHeadDim));
          double& a = rows[position][head + i];
          double& b = rows[position][head + kHalf + i];
          const double rotated = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = rotated;
        }
      }
    }
  }

  static std::vector<double> Attend(const std::vector<double>& q, const Rows& k, const Rows& v,
                                    size_t position, int64_t window_tokens) {
    const int64_t begin = static_cast<int64_t>(position) - window_tokens + 1;
    const size_t first = window_tokens == 0 ? 0 : static_cast<size_t>(std::max<int64_t>(begin, 0));
    std::vector<double> output(kHeads * kHeadDim, 0.0);
    for (size_t head = 0; head < kHeads; ++head) {
      const size_t kv_begin = head / (kHeads / kKvHeads) * kHeadDim;
      double sum = 0.0;
      for (size_t key = first; key <= position; ++key) {
        double score = 0.0;
        for (size_t i = 0; i < kHeadDim; ++i)
          score += q[head * kHeadDim + i] * k[key][kv_begin + i];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(kHeadDim)));
        sum += weight;
        for (size_t i = 0; i < kHeadDim; ++i) {
          output[head * kHeadDim + i] += weight * v[key][kv_begin + i];
        }
      }
      for (size_t i = 0; i < kHeadDim; ++i) output[head * kHeadDim + i] /= sum;
    }
    return output;
  }

  void Add(const Rows& delta) {
    for (size_t i = 0; i < residual_.size(); ++i) {
      for (size_t j = 0; j < kHidden; ++j) residual_[i][j] += delta[i][j];
    }
  }

  const TensorNames& names_ = PebbleFamily().hugging_face;
  const std::span<const TestTensor> tensors_;
  const std::span<const TokenId> tokens_;
  std::string prefix_;
  Rows residual_;
};

}  // namespace

std::string PebbleConfigJson() {
  return fmt::format(
      R"({{"model_type": "pebble", "architectures": ["PebbleForCausalLM"], "hidden_size": {},
          "intermediate_size": {}, "num_stones": {}, "num_attention_heads": {},
          "num_key_value_heads": {}, "head_dim": {}, "vocab_size": {},
          "max_position_embeddings": 256, "rms_norm_eps": {}, "rope_theta": 10000.0,
          "eos_token_id": 1}})",
      kHidden, kInner, kLayers, kHeads, kKvHeads, kHeadDim, kVocab, kNormEps);
}

std::vector<TestTensor> PebbleTensors() {
  const TensorNames& names = PebbleFamily().hugging_face;
  Maker maker;
  maker.Add(names.token_embedding, {kVocab, kHidden}, 1.0);
  maker.Add(names.final_norm, {kHidden}, 0.2, 1.0);
  maker.AddMatrix(names.lm_head, kVocab, kHidden);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    maker.prefix = fmt::format("{}{}.", names.layer_prefix, layer);
    maker.Add(names.attention_norm, {kHidden}, 0.2, 1.0);
    maker.AddMatrix(names.q, kHeads * kHeadDim, kHidden);
    maker.AddMatrix(names.k, kKvHeads * kHeadDim, kHidden);
    maker.AddMatrix(names.v, kKvHeads * kHeadDim, kHidden);
    // Above 1, so that attention is not nearly uniform.
    maker.Add(names.q_norm, {kHeadDim}, 0.2, 1.4);
    maker.Add(names.k_norm, {kHeadDim}, 0.2, 1.4);
    maker.AddMatrix(names.attention_output, kHidden, kHeads * kHeadDim);
    maker.Add(names.mlp_norm, {kHidden}, 0.2, 1.0);
    maker.AddMatrix(names.gate, kInner, kHidden);
    maker.AddMatrix(names.up, kInner, kHidden);
    maker.AddMatrix(names.down, kHidden, kInner);
  }
  return maker.tensors;
}

void WritePebbleCheckpoint(const TempFolder& folder) {
  folder.Write("config.json", PebbleConfigJson());
  folder.Write("model.safetensors", SafetensorsBytes(PebbleTensors(), "BF16"));
  std::filesystem::copy_file("tests/golden/tiny-qwen3/tokenizer.json",
                             folder.path() + "/tokenizer.json");
}

std::vector<PlainLayerKind> PebbleLayerKinds() {
  const PlainLayerKind local = {.window_tokens = 32, .rope_theta = 100.0};
  const PlainLayerKind full = {.window_tokens = 0, .rope_theta = 10000.0};
  return {local, full, local, full};
}

std::vector<float> PlainPebbleLogits(std::span<const TestTensor> tensors,
                                     std::span<const PlainLayerKind> layer_kinds,
                                     std::span<const TokenId> tokens) {
  Plain model(tensors, tokens);
  for (size_t layer = 0; layer < layer_kinds.size(); ++layer) {
    model.Layer(layer, layer_kinds[layer]);
  }
  return model.Logits();
}

}  // namespace lockstep::worker
