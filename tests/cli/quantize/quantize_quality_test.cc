// How far SmolLM2 with quantised weights is from SmolLM2: the mean KL divergence of the next
// token's distribution, and how often the likeliest token is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/quantize/quantize_folder.h"
#include "cli/quantize/quantize_target.h"
#include "common/model_files/safetensors_writer.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/distribution_check.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "worker/cpu/load_model.h"
#include "worker/model/weights/weight_source.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using kernels::BFloat16;
using worker::SourceTensor;

constexpr int64_t kHeadDim = 64;
constexpr size_t kNumTokens = 256;

// The name in a Hugging Face folder of a tensor in llama.cpp's GGUF file.
std::string HuggingFaceName(std::string_view gguf) {
  constexpr std::pair<std::string_view, std::string_view> kOfModel[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"}};
  constexpr std::pair<std::string_view, std::string_view> kOfLayer[] = {
      {"attn_q", "self_attn.q_proj"},   {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
      {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  for (const auto& [from, to] : kOfModel) {
    if (gguf == from) return std::string(to);
  }
  const size_t layer = std::string_view("blk.").size();
  const size_t dot = gguf.find('.', layer);
  const std::string_view stem = gguf.substr(dot + 1, gguf.rfind('.') - dot - 1);
  for (const auto& [from, to] : kOfLayer) {
    if (stem != from) continue;
    return "model.layers." + std::string(gguf.substr(layer, dot - layer)) + "." + std::string(to) +
           ".weight";
  }
  ADD_FAILURE() << gguf;
  return "";
}

// llama.cpp interleaves the two halves of each head of q and k.
int64_t RowInFolder(std::string_view name, int64_t row) {
  if (!name.ends_with("q_proj.weight") && !name.ends_with("k_proj.weight")) return row;
  const int64_t in_head = row % kHeadDim;
  return row - in_head + in_head % 2 * (kHeadDim / 2) + in_head / 2;
}

std::vector<std::byte> InBf16(const SourceTensor& tensor, std::string_view name) {
  const auto columns = static_cast<int64_t>(tensor.shape.back());
  const int64_t rows = tensor.shape.size() == 2 ? static_cast<int64_t>(tensor.shape[0]) : 1;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  EXPECT_THAT(ReadRows(tensor, 0, columns, values), IsOk());
  std::vector<BFloat16> rounded(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = values.data() + row * columns;
    BFloat16* const to = rounded.data() + RowInFolder(name, row) * columns;
    for (int64_t i = 0; i < columns; ++i) to[i] = kernels::ToBFloat16(from[i]);
  }
  return kernels::BytesOf(std::span<const BFloat16>(rounded));
}

// SmolLM2 as a folder in bf16.
void WriteFolder(const std::string& path) {
  fs::create_directory(path);
  fs::copy_file("tests/golden/tokenizers/smollm2.json", path + "/tokenizer.json");
  const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                 {"model_type", "llama"},
                                 {"hidden_size", 576},
                                 {"intermediate_size", 1536},
                                 {"num_hidden_layers", 30},
                                 {"num_attention_heads", 9},
                                 {"num_key_value_heads", 3},
                                 {"max_position_embeddings", 8192},
                                 {"rms_norm_eps", 1e-5},
                                 {"rope_theta", 100000.0},
                                 {"tie_word_embeddings", true},
                                 {"vocab_size", 49152}};
  std::ofstream(path + "/config.json") << config;
  const auto source = worker::WeightSource::Open(worker::kSmolLm2Path, *FindModelFamily("llama"));
  ASSERT_THAT(source, IsOk()) << "deploy/fetch-model fetches the model";
  std::vector<TensorSpec> specs;
  for (const SourceTensor& tensor : source->tensors()) {
    specs.push_back({HuggingFaceName(tensor.name), SafetensorsDtype::kBF16, tensor.shape});
  }
  auto writer = SafetensorsWriter::Create(path + "/model.safetensors", specs, {});
  ASSERT_THAT(writer, IsOk());
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::byte> bytes = InBf16(source->tensors()[i], specs[i].name);
    ASSERT_THAT(writer->Append(specs[i], bytes), IsOk());
  }
  ASSERT_THAT(writer->Finish(), IsOk());
}

std::vector<float> LogitsOf(const std::string& model_path, std::span<const TokenId> tokens) {
  const auto model = worker::LoadCpuModel(model_path, {.num_kv_blocks = worker::kSmolLm2KvBlocks,
                                                       .max_logits_rows = worker::kSmolLm2MaxTokens,
                                                       .num_threads = 2});
  EXPECT_THAT(model, IsOk());
  if (!model.ok()) return {};
  return worker::SequenceRunner(**model, tokens).RunInStepsOf(static_cast<uint32_t>(tokens.size()));
}

struct Bound {
  std::string_view target;
  double max_kl;
  double min_agreement;
};

// docs/formats.md has the figures. The bounds are twice as wide.
constexpr Bound kBounds[] = {{"w8a16", 0.011, 0.95},
                             {"fp8", 0.05, 0.92},
                             {"fp8-block", 0.05, 0.9},
                             {"w4a16-asym", 0.72, 0.6},
                             {"w4a16", 0.9, 0.47}};

TEST(QuantizeQualityTest, IsWithinTheBoundsOfEachFormat) {
  const TempFolder home;
  const std::string folder = home.path() + "/smollm2";
  ASSERT_NO_FATAL_FAILURE(WriteFolder(folder));
  const std::vector<TokenId> tokens = worker::SmolLm2Tokens(kNumTokens);
  const std::vector<float> plain = LogitsOf(folder, tokens);
  ASSERT_TRUE(IsSameBits(plain, LogitsOf(worker::kSmolLm2Path, tokens)));
  for (const Bound& bound : kBounds) {
    const std::string output = home.path() + "/" + std::string(bound.target);
    QuantizeJob job{.model = folder, .output = output, .scheme = {}, .ignored = {}};
    job.scheme = FindQuantizeTarget(bound.target)->scheme;
    ASSERT_THAT(QuantizeFolder(job, nullptr), IsOk());
    worker::ExpectCloseDistributions(
        bound.target, plain, LogitsOf(output, tokens), plain.size() / kNumTokens,
        {.max_kl = bound.max_kl, .min_agreement = bound.min_agreement});
    fs::remove_all(output);
  }
}

}  // namespace
}  // namespace lockstep::cli
