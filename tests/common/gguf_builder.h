#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/gguf.h"
#include "tests/common/byte_writer.h"

namespace lockstep {

// Bytes of a GGUF file, version 3, with alignment 32. Puts entries in the order of the calls.
class GgufBuilder {
 public:
  GgufBuilder& String(std::string_view key, std::string_view value);
  GgufBuilder& Uint32(std::string_view key, uint32_t value) { return Scalar(key, 4, value); }
  GgufBuilder& Int32(std::string_view key, int32_t value) { return Scalar(key, 5, value); }
  GgufBuilder& Float32(std::string_view key, float value) { return Scalar(key, 6, value); }
  GgufBuilder& Bool(std::string_view key, bool value) { return Scalar(key, 7, uint8_t{value}); }
  GgufBuilder& Strings(std::string_view key, const std::vector<std::string>& values);
  GgufBuilder& Ints(std::string_view key, const std::vector<int32_t>& values);
  template <typename T>
  GgufBuilder& Scalar(std::string_view key, uint32_t type, T value) {
    return Entry(key, type, ByteWriter().Put(value).bytes());
  }
  // `encoded` is the value as it lies in the file.
  GgufBuilder& Entry(std::string_view key, uint32_t type, std::string_view encoded);

  // `dimensions` in the file's order, innermost first; `data` is placed at the next aligned offset.
  GgufBuilder& Tensor(std::string_view name, GgmlType type, std::vector<uint64_t> dimensions,
                      std::string_view data);
  // The same with an offset of the caller's choice and no data.
  GgufBuilder& TensorEntry(std::string_view name, uint32_t type,
                           const std::vector<uint64_t>& dimensions, uint64_t offset);

  std::string Build() const;

 private:
  ByteWriter metadata_;
  ByteWriter tensor_entries_;
  ByteWriter data_;
  uint64_t num_metadata_ = 0;
  uint64_t num_tensors_ = 0;
};

// All that a reader of a small Llama needs; tests overwrite or extend it.
GgufBuilder TinyLlamaGguf();

}  // namespace lockstep
