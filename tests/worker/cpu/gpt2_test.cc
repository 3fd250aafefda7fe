#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/common/byte_writer.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/checkpoint_builder.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHidden = 24, kInner = 40, kLayers = 2, kHeads = 4, kVocab = 51, kPositions = 64;

// A GPT-2 in memory, with the names and shapes of today's transformers.
std::vector<TestTensor> MakeTensors() {
  std::mt19937 random(3);
  std::vector<TestTensor> tensors;
  const auto add = [&](std::string name, std::vector<uint64_t> shape) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    std::vector<float> values(count);
    for (float& value : values)
      value = static_cast<float>(static_cast<int>(random() % 81) - 40) / 64.0f;
    tensors.push_back({std::move(name), std::move(shape), std::move(values)});
  };
  const auto add_with_bias = [&](const std::string& name, std::vector<uint64_t> shape) {
    add(name + ".bias", {shape.back()});
    add(name + ".weight", std::move(shape));
  };
  add("transformer.wte.weight", {kVocab, kHidden});
  add("transformer.wpe.weight", {kPositions, kHidden});
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("transformer.h.{}.", layer);
    add_with_bias(prefix + "ln_1", {kHidden});
    add_with_bias(prefix + "attn.c_attn", {kHidden, 3 * kHidden});
    add_with_bias(prefix + "attn.c_proj", {kHidden, kHidden});
    add_with_bias(prefix + "ln_2", {kHidden});
    add_with_bias(prefix + "mlp.c_fc", {kHidden, kInner});
    add_with_bias(prefix + "mlp.c_proj", {kInner, kHidden});
  }
  add_with_bias("transformer.ln_f", {kHidden});
  return tensors;
}

std::string ConfigText(std::string_view more = "") {
  return fmt::format(
      R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": {}, "n_inner": {},
          "n_layer": {}, "n_head": {}, "vocab_size": {}, "n_positions": {}, "n_ctx": {},
          "activation_function": "gelu_new", "summary_type": "cls_index", "eos_token_id": 1{}}})",
      kHidden, kInner, kLayers, kHeads, kVocab, kPositions, kPositions, more);
}

// As llama.cpp's converter writes it: matrices are [outputs, inputs] there.
std::string GgufText(const std::vector<TestTensor>& tensors) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"transformer.wte", "token_embd"},
      {"transformer.wpe", "position_embd"},
      {"transformer.ln_f", "output_norm"},
      {"transformer.h.", "blk."},
      {"ln_1", "attn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"ln_2", "ffn_norm"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"}};
  GgufBuilder builder;
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < kVocab; ++i) tokens.push_back(fmt::format("t{}", i));
  builder.String("general.architecture", "gpt2")
      .Uint32("gpt2.context_length", kPositions)
      .Uint32("gpt2.embedding_length", kHidden)
      .Uint32("gpt2.block_count", kLayers)
      .Uint32("gpt2.feed_forward_length", kInner)
      .Uint32("gpt2.attention.head_count", kHeads)
      .Float32("gpt2.attention.layer_norm_epsilon", 1e-5f)
      .Strings("tokenizer.ggml.tokens", tokens);
  for (const TestTensor& tensor : tensors) {
    std::string name = tensor.name;
    for (const auto& [from, to] : kNames) {
      if (const size_t place = name.find(from); place != std::string::npos) {
        name.replace(place, from.size(), to);
      }
    }
    std::vector<uint64_t> shape = tensor.shape;
    std::vector<float> values = tensor.values;
    const bool is_matrix = shape.size() == 2 && name.find("_embd") == std::string::npos;
    if (is_matrix) {
      const size_t rows = shape[0], columns = shape[1];
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < columns; ++j) values[j * rows + i] = tensor.values[i * columns + j];
      }
      std::swap(shape[0], shape[1]);
    }
    ByteWriter data;
    for (const float value : values) data.Put(value);
    builder.Tensor(name, GgmlType::kF32, {shape.rbegin(), shape.rend()}, data.bytes());
  }
  return builder.Build();
}

class Gpt2Test : public ::testing::Test {
 protected:
  using Loaded = absl::StatusOr<std::unique_ptr<ForwardModel>>;

  Loaded LoadFolder(const std::vector<TestTensor>& tensors, std::string_view dtype = "BF16",
                    const std::string& config = ConfigText()) {
    folder_.Write("config.json", config);
    folder_.Write("model.safetensors", SafetensorsBytes(tensors, dtype));
    return LoadCpuModel(folder_.path(), kOptions);
  }
  Loaded LoadGguf(const std::vector<TestTensor>& tensors) {
    return LoadCpuModel(folder_.Write("model.gguf", GgufText(tensors)), kOptions);
  }
  static std::vector<float> Logits(const Loaded& model) {
    EXPECT_THAT(model, IsOk());
    if (!model.ok()) return {};
    const std::vector<TokenId> tokens = {3, 14, 15, 9, 26, 5, 35, 50, 0, 7};
    return SequenceRunner(**model, tokens).RunInStepsOf(10);
  }

  const ModelOptions kOptions = {.num_kv_blocks = 4, .max_step_tokens = 64};
  TempFolder folder_;
};

TEST_F(Gpt2Test, EveryContainerAndSpellingGivesTheSameLogits) {
  const std::vector<TestTensor> tensors = MakeTensors();
  const std::vector<float> expected = Logits(LoadFolder(tensors));
  ASSERT_TRUE(IsFinite(expected));
  EXPECT_TRUE(IsSameBits(Logits(LoadFolder(tensors, "F32")), expected));
  EXPECT_TRUE(IsSameBits(Logits(LoadGguf(tensors)), expected)) << "GGUF";
  std::vector<TestTensor> older = tensors;
  for (TestTensor& tensor : older) tensor.name.erase(0, std::string_view("transformer.").size());
  older.push_back({"h.0.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1}});
  older.push_back({"h.1.attn.masked_bias", {1}, {-1e4f}});
  EXPECT_TRUE(IsSameBits(Logits(LoadFolder(older, "F32")), expected)) << "without the prefix";
  std::vector<TestTensor> copied = tensors;
  copied.push_back(tensors.front());
  copied.back().name = "lm_head.weight";
  EXPECT_TRUE(IsSameBits(Logits(LoadFolder(copied)), expected)) << "with a copy of the embedding";
}

TEST_F(Gpt2Test, PositionsMatter) {
  std::vector<TestTensor> tensors = MakeTensors();
  const std::vector<float> expected = Logits(LoadFolder(tensors));
  std::vector<float>& positions = tensors[1].values;
  std::swap(positions[0], positions[static_cast<size_t>(5 * kHidden)]);
  EXPECT_FALSE(IsSameBits(Logits(LoadFolder(tensors)), expected));
}

TEST_F(Gpt2Test, NamesWhatIsMissing) {
  std::vector<TestTensor> tensors = MakeTensors();
  std::erase_if(tensors, [](const TestTensor& tensor) {
    return tensor.name == "transformer.h.1.mlp.c_fc.bias";
  });
  EXPECT_THAT(LoadFolder(tensors),
              HasError(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor transformer.h.1.mlp.c_fc.bias of shape [40] is missing")));
}

// Matrices are transposed when they are loaded. The error's index is that of the file.
TEST_F(Gpt2Test, NamesAWeightThatIsNotFiniteAsTheFileHasIt) {
  std::vector<TestTensor> tensors = MakeTensors();
  const auto matrix =
      std::ranges::find(tensors, "transformer.h.1.mlp.c_proj.weight", &TestTensor::name);
  matrix->values[size_t{29} * kHidden + 3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      LoadFolder(tensors),
      HasError(absl::StatusCode::kInvalidArgument,
               HasSubstr("tensor transformer.h.1.mlp.c_proj.weight: element [29, 3] is inf")));
}

TEST_F(Gpt2Test, RefusesWhatWouldAlterTheComputation) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(, "scale_attn_by_inverse_layer_idx": true)", "scale_attn_by_inverse_layer_idx is true"},
      {R"(, "scale_attn_weights": false)", "scale_attn_weights is false"},
      {R"(, "rope_theta": 1000)", "rope_theta is 1000, which would alter the result"},
  };
  for (const auto& [more, message] : cases) {
    EXPECT_THAT(LoadFolder(MakeTensors(), "BF16", ConfigText(more)),
                HasError(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  std::string relu = ConfigText();
  relu.replace(relu.find("gelu_new"), 8, "relu");
  EXPECT_THAT(LoadFolder(MakeTensors(), "BF16", relu),
              HasError(absl::StatusCode::kInvalidArgument,
                       HasSubstr("activation_function is \"relu\", expected \"gelu_new\" or "
                                 "\"gelu_pytorch_tanh\" or \"gelu\"")));
}

}  // namespace
}  // namespace lockstep::worker
