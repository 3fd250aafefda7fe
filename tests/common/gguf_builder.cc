#include "tests/common/gguf_builder.h"

namespace lockstep {
namespace {

constexpr uint32_t kStringType = 8;
constexpr uint32_t kArrayType = 9;
constexpr uint32_t kInt32Type = 5;
constexpr size_t kAlignment = 32;

void PutString(ByteWriter& writer, std::string_view text) { writer.U64(text.size()).Raw(text); }

}  // namespace

GgufBuilder& GgufBuilder::Entry(std::string_view key, uint32_t type, std::string_view encoded) {
  PutString(metadata_, key);
  metadata_.U32(type).Raw(encoded);
  ++num_metadata_;
  return *this;
}

GgufBuilder& GgufBuilder::String(std::string_view key, std::string_view value) {
  ByteWriter encoded;
  PutString(encoded, value);
  return Entry(key, kStringType, encoded.bytes());
}

GgufBuilder& GgufBuilder::Strings(std::string_view key, const std::vector<std::string>& values) {
  ByteWriter encoded;
  encoded.U32(kStringType).U64(values.size());
  for (const std::string& value : values) PutString(encoded, value);
  return Entry(key, kArrayType, encoded.bytes());
}

GgufBuilder& GgufBuilder::Ints(std::string_view key, const std::vector<int32_t>& values) {
  ByteWriter encoded;
  encoded.U32(kInt32Type).U64(values.size());
  for (const int32_t value : values) encoded.Put(value);
  return Entry(key, kArrayType, encoded.bytes());
}

GgufBuilder& GgufBuilder::TensorEntry(std::string_view name, uint32_t type,
                                      const std::vector<uint64_t>& dimensions, uint64_t offset) {
  PutString(tensor_entries_, name);
  tensor_entries_.U32(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t size : dimensions) tensor_entries_.U64(size);
  tensor_entries_.U32(type).U64(offset);
  ++num_tensors_;
  return *this;
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, GgmlType type,
                                 std::vector<uint64_t> dimensions, std::string_view data) {
  data_.PadTo(kAlignment);
  TensorEntry(name, static_cast<uint32_t>(type), dimensions, data_.bytes().size());
  data_.Raw(data);
  return *this;
}

std::string GgufBuilder::Build() const {
  ByteWriter file;
  file.Raw("GGUF").U32(3).U64(num_tensors_).U64(num_metadata_);
  file.Raw(metadata_.bytes()).Raw(tensor_entries_.bytes());
  file.PadTo(kAlignment).Raw(data_.bytes());
  return file.bytes();
}

GgufBuilder TinyLlamaGguf() {
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .String("general.name", "Tiny Llama")
      .Uint32("llama.context_length", 128)
      .Uint32("llama.embedding_length", 16)
      .Uint32("llama.block_count", 2)
      .Uint32("llama.feed_forward_length", 48)
      .Uint32("llama.attention.head_count", 4)
      .Uint32("llama.attention.head_count_kv", 2)
      .Float32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .Float32("llama.rope.freq_base", 50000.0f)
      .Uint32("llama.rope.dimension_count", 4)
      .Strings("tokenizer.ggml.tokens", {"<|endoftext|>", "a", "b", "</s>", "<|im_end|>"})
      .Ints("tokenizer.ggml.token_type", {3, 1, 1, 3, 1})
      .Uint32("tokenizer.ggml.bos_token_id", 1)
      .Uint32("tokenizer.ggml.eos_token_id", 3);
  return builder;
}

}  // namespace lockstep
