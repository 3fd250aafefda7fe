#include "tests/worker/model/checkpoint_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <random>

#include "common/check.h"
#include "kernels/core/bfloat16.h"
#include "tests/common/byte_writer.h"
#include "tests/common/gguf_builder.h"

namespace lockstep::worker {
namespace {

// For values that F16 holds exactly.
uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  return static_cast<uint16_t>(magnitude == 0 ? sign : sign | ((magnitude >> 13) - (112u << 10)));
}

std::string Encode(const std::vector<float>& values, std::string_view dtype) {
  ByteWriter writer;
  for (const float value : values) {
    if (dtype == "F32") {
      writer.Put(value);
    } else if (dtype == "F16") {
      writer.Put(ToHalf(value));
    } else if (dtype == "BF16") {
      writer.Put(kernels::ToBFloat16(value).bits);
    } else {
      writer.U8(0);
    }
  }
  return writer.bytes();
}

// Appends random tensors, one after the other.
class TensorMaker {
 public:
  explicit TensorMaker(std::vector<TestTensor>& tensors) : tensors_(tensors) {}

  void Add(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    TestTensor tensor{.name = name, .shape = std::move(shape), .values = {}};
    for (uint64_t i = 0; i < count; ++i) {
      tensor.values.push_back(static_cast<float>(uniform_(generator_)) / 64.0f);
    }
    tensors_.push_back(std::move(tensor));
  }

 private:
  std::vector<TestTensor>& tensors_;
  std::mt19937 generator_{1};
  std::uniform_int_distribution<int> uniform_{-40, 40};
};

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr NamePair kTopNames[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                  {"model.norm.weight", "output_norm.weight"},
                                  {"lm_head.weight", "output.weight"}};
constexpr NamePair kLayerNames[] = {
    {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"}};

std::string GgufName(const std::string& name, uint32_t num_layers) {
  for (const NamePair& pair : kTopNames) {
    if (name == pair.hugging_face) return std::string(pair.gguf);
  }
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    for (const NamePair& pair : kLayerNames) {
      for (const std::string_view suffix : {".weight", ".bias"}) {
        if (name == fmt::format("model.layers.{}.{}{}", layer, pair.hugging_face, suffix)) {
          return fmt::format("blk.{}.{}{}", layer, pair.gguf, suffix);
        }
      }
    }
  }
  LOCKSTEP_CHECK(false, "no GGUF name for {}", name);
}

// Rows of every head as llama.cpp stores them: 0, D/2, 1, D/2 + 1, ...
std::vector<float> InterleaveHalves(const TestTensor& tensor, uint32_t head_dim) {
  const size_t num_rows = tensor.shape[0];
  const size_t columns = tensor.values.size() / num_rows;
  std::vector<float> result;
  for (size_t row = 0; row < num_rows; ++row) {
    const size_t in_head = row % head_dim;
    const size_t from = row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
    const auto begin = tensor.values.begin() + static_cast<ptrdiff_t>(from * columns);
    result.insert(result.end(), begin, begin + static_cast<ptrdiff_t>(columns));
  }
  return result;
}

}  // namespace

TestTensor& TestCheckpoint::Tensor(std::string_view name) {
  const auto place = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TestTensor& tensor) { return tensor.name == name; });
  LOCKSTEP_CHECK(place != tensors.end(), "no tensor {}", name);
  return *place;
}

void TestCheckpoint::Remove(std::string_view name) {
  std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
}

TestCheckpoint MakeCheckpoint(const ModelFamily* family, bool tied) {
  TestCheckpoint checkpoint{.family = family, .tied = tied, .tensors = {}};
  const uint32_t hidden = checkpoint.hidden_size;
  const uint32_t q_size = checkpoint.num_heads * checkpoint.head_dim;
  const uint32_t kv_size = checkpoint.num_kv_heads * checkpoint.head_dim;
  TensorMaker maker(checkpoint.tensors);
  maker.Add("model.embed_tokens.weight", {checkpoint.vocab_size, hidden});
  maker.Add("model.norm.weight", {hidden});
  if (!tied) maker.Add("lm_head.weight", {checkpoint.vocab_size, hidden});
  for (uint32_t layer = 0; layer < checkpoint.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    maker.Add(prefix + "input_layernorm.weight", {hidden});
    maker.Add(prefix + "post_attention_layernorm.weight", {hidden});
    maker.Add(prefix + "self_attn.q_proj.weight", {q_size, hidden});
    maker.Add(prefix + "self_attn.k_proj.weight", {kv_size, hidden});
    maker.Add(prefix + "self_attn.v_proj.weight", {kv_size, hidden});
    maker.Add(prefix + "self_attn.o_proj.weight", {hidden, q_size});
    maker.Add(prefix + "mlp.gate_proj.weight", {checkpoint.intermediate_size, hidden});
    maker.Add(prefix + "mlp.up_proj.weight", {checkpoint.intermediate_size, hidden});
    maker.Add(prefix + "mlp.down_proj.weight", {hidden, checkpoint.intermediate_size});
    if (family == FindModelFamily("qwen2")) {
      maker.Add(prefix + "self_attn.q_proj.bias", {q_size});
      maker.Add(prefix + "self_attn.k_proj.bias", {kv_size});
      maker.Add(prefix + "self_attn.v_proj.bias", {kv_size});
    }
  }
  return checkpoint;
}

std::string ConfigJson(const TestCheckpoint& checkpoint) {
  const bool is_llama = checkpoint.family == FindModelFamily("llama");
  return fmt::format(
      R"({{"model_type": "{}", "architectures": ["{}"], "hidden_size": {}, "intermediate_size": {},
          "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
          "head_dim": {}, "vocab_size": {}, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
          "rope_theta": 1000.0, "hidden_act": "silu", "tie_word_embeddings": {},
          "eos_token_id": 1}})",
      checkpoint.family->name, is_llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM",
      checkpoint.hidden_size, checkpoint.intermediate_size, checkpoint.num_layers,
      checkpoint.num_heads, checkpoint.num_kv_heads, checkpoint.head_dim, checkpoint.vocab_size,
      checkpoint.tied);
}

std::string SafetensorsBytes(const std::vector<TestTensor>& tensors, std::string_view dtype) {
  ByteWriter data;
  std::vector<std::string> entries;
  for (const TestTensor& tensor : tensors) {
    const size_t begin = data.bytes().size();
    data.Raw(Encode(tensor.values, dtype));
    entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  tensor.name, dtype, fmt::join(tensor.shape, ","), begin,
                                  data.bytes().size()));
  }
  const std::string header = fmt::format("{{{}}}", fmt::join(entries, ","));
  return ByteWriter().U64(header.size()).Raw(header).Raw(data.bytes()).bytes();
}

std::string GgufBytes(const TestCheckpoint& checkpoint) {
  const std::string architecture(checkpoint.family->name);
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < checkpoint.vocab_size; ++i) tokens.push_back(fmt::format("t{}", i));
  GgufBuilder builder;
  builder.String("general.architecture", architecture)
      .Uint32(key("context_length"), 64)
      .Uint32(key("embedding_length"), checkpoint.hidden_size)
      .Uint32(key("block_count"), checkpoint.num_layers)
      .Uint32(key("feed_forward_length"), checkpoint.intermediate_size)
      .Uint32(key("attention.head_count"), checkpoint.num_heads)
      .Uint32(key("attention.head_count_kv"), checkpoint.num_kv_heads)
      .Uint32(key("attention.key_length"), checkpoint.head_dim)
      .Float32(key("attention.layer_norm_rms_epsilon"), 1e-5f)
      .Float32(key("rope.freq_base"), 1000.0f)
      .Strings("tokenizer.ggml.tokens", tokens);
  for (const TestTensor& tensor : checkpoint.tensors) {
    const bool is_rotary = tensor.name.find(".q_proj.") != std::string::npos ||
                           tensor.name.find(".k_proj.") != std::string::npos;
    const bool interleaved = is_rotary && checkpoint.family == FindModelFamily("llama");
    const std::vector<float> values =
        interleaved ? InterleaveHalves(tensor, checkpoint.head_dim) : tensor.values;
    builder.Tensor(GgufName(tensor.name, checkpoint.num_layers), GgmlType::kF32,
                   {tensor.shape.rbegin(), tensor.shape.rend()}, Encode(values, "F32"));
  }
  return builder.Build();
}

}  // namespace lockstep::worker
