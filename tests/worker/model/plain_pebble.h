#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "tests/common/temp_folder.h"
#include "tests/worker/model/checkpoint_builder.h"

// A small random model of the toy family, and its logits by the plainest program: no tiles, no
// cache, no rounding.
namespace lockstep::worker {

// The text of its config.json. It leaves out everything that the family says.
std::string PebbleConfigJson();
// With the names of the family; the values are those of bf16.
std::vector<TestTensor> PebbleTensors();
// Both as files, beside the tokenizer of a tiny Qwen3: what a worker loads.
void WritePebbleCheckpoint(const TempFolder& folder);

// What a layer does differently.
struct PlainLayerKind {
  int64_t window_tokens = 0;  // 0: reads all tokens before
  double rope_theta = 10000.0;
};
std::vector<PlainLayerKind> PebbleLayerKinds();

// Logits of all tokens, [tokens.size(), vocab_size].
std::vector<float> PlainPebbleLogits(std::span<const TestTensor> tensors,
                                     std::span<const PlainLayerKind> layer_kinds,
                                     std::span<const TokenId> tokens);

}  // namespace lockstep::worker
