#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// For the tests of kernels/formats: the tensors of one module, which a test may change.
namespace lockstep::kernels {

class ModuleFiles {
 public:
  explicit ModuleFiles(std::string module) : module_(std::move(module)) {}
  // The tensors "CASE.suffix" of a golden file.
  static ModuleFiles FromGolden(const SafetensorsFile& golden, std::string_view name);
  static ModuleFiles FromEncoded(const std::vector<EncodedTensor>& tensors);

  void Set(EncodedTensor tensor);
  void Erase(const std::string& suffix) { tensors_.erase(suffix); }
  EncodedTensor& At(const std::string& suffix) { return tensors_.at(suffix); }
  bool Has(const std::string& suffix) const { return tensors_.contains(suffix); }
  // Is valid until the next change.
  ModuleTensors View();

 private:
  std::string module_;
  std::map<std::string, EncodedTensor> tensors_;
  std::map<std::string, SafetensorsTensor> views_;
};

// The golden file of decoders or of quantisers.
const SafetensorsFile& GoldenFile(std::string_view name);

template <typename T>
std::vector<T> ElementsOf(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Bits of all values in bf16, row by row.
std::vector<uint16_t> ValueBits(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
