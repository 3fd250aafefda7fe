#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "tests/common/temp_folder.h"

// Folders with quantised weights, made of tests/golden/tiny-llama: random codes instead of the
// matrices of its layers.
namespace lockstep::worker {

// One published layout.
struct WeightLayoutCase {
  std::string name;
  bool lm_head = false;         // is quantised too
  int64_t column_multiple = 1;  // matrices with other columns are not quantised
  nlohmann::json quantization_config;
  std::function<kernels::QuantizedMatrix(int64_t n, int64_t k, std::mt19937_64& random)> matrix;
  std::function<std::vector<kernels::EncodedTensor>(const kernels::QuantizedMatrix&)> encode;
};
std::vector<WeightLayoutCase> AllWeightLayouts();

// The tensors of a folder, which a test may change before it writes them.
class QuantizedFolder {
 public:
  struct Tensor {
    SafetensorsDtype dtype;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  using Keeps = std::function<bool(std::string_view module)>;

  // `keeps`: modules of layers that are not quantised.
  explicit QuantizedFolder(const WeightLayoutCase& layout, const Keeps& keeps = nullptr);

  std::map<std::string, Tensor> tensors;    // with codes
  std::map<std::string, Tensor> converted;  // the same model in bf16
  nlohmann::json quantization_config;       // null: none

  // Each writes a folder of its own and returns the path.
  std::string Write() const;
  std::string WriteConverted() const;

 private:
  std::string WriteFiles(const std::string& folder, const std::map<std::string, Tensor>& of,
                         const nlohmann::json& quantization) const;
  TempFolder home_;
};

}  // namespace lockstep::worker
