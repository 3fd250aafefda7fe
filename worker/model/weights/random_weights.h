#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/model/plan/model_plan.h"

// Weights without a checkpoint: any published architecture can then be measured and tested. They
// are scaled so that activations stay in the range of a trained model's: a matrix has standard
// deviation 1 / sqrt(inputs), a norm weight lies about 1, a bias about 0.
namespace lockstep::worker {

// Element i is mean + deviation * z with z approximately normal: the sum of four uniform 16-bit
// numbers from one hash of (seed, i), centred and scaled; |z| <= 3.47.
struct RandomTensor {
  uint64_t seed = 0;
  float mean = 0.0f;
  float deviation = 0.0f;
};

// Elements [first, first + values.size()).
void FillRandom(const RandomTensor& tensor, uint64_t first, std::span<float> values);

struct RandomTensorShape {
  std::string name;
  std::vector<uint64_t> shape;
  RandomTensor values;
  bool is_linear = false;  // a matrix of a product, [outputs, inputs]
};

// Every tensor of the model, by these names. Equal seeds give equal values, and each tensor has
// values of its own. With tied embeddings the logits' matrix is left out.
std::vector<RandomTensorShape> RandomTensors(const ModelPlan& plan, const TensorNames& names,
                                             uint64_t seed);

}  // namespace lockstep::worker
