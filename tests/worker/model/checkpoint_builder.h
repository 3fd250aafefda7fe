#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"

namespace lockstep::worker {

// A small checkpoint in memory, to be written in the formats that the loader reads. Names are those
// of Hugging Face; values are random multiples of 1/64, which F32, F16 and BF16 hold exactly.
struct TestTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

struct TestCheckpoint {
  const ModelFamily* family = FindModelFamily("llama");  // Qwen2 has biases on q, k and v
  uint32_t hidden_size = 24;
  uint32_t intermediate_size = 40;
  uint32_t num_layers = 2;
  uint32_t num_heads = 4;
  uint32_t num_kv_heads = 2;
  uint32_t head_dim = 6;
  uint32_t vocab_size = 50;
  bool tied = false;
  std::vector<TestTensor> tensors;

  TestTensor& Tensor(std::string_view name);  // must exist
  void Remove(std::string_view name);
};

TestCheckpoint MakeCheckpoint(const ModelFamily* family, bool tied);

std::string ConfigJson(const TestCheckpoint& checkpoint);
// `dtype` is "F32", "F16" or "BF16"; any other name is written as it is, with one byte per element.
std::string SafetensorsBytes(const std::vector<TestTensor>& tensors, std::string_view dtype);
// F32 tensors, named and arranged as llama.cpp's converter does.
std::string GgufBytes(const TestCheckpoint& checkpoint);

}  // namespace lockstep::worker
