// GGUF files: parsing, every typed access to every key, the model config.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/check.h"
#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/status.h"
#include "kernels/quant/dequantize.h"

namespace lockstep {
namespace {

void CheckError(const absl::Status& status) {
  LOCKSTEP_CHECK(status.ok() || Message(status).starts_with("fuzz.gguf"),
                 "an error does not name the file: {}", Message(status));
}

void CheckTensor(const GgufTensor& tensor, std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(tensor.data.data() >= bytes.data() &&
                     tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size(),
                 "tensor {} lies outside of the file", tensor.name);
  const GgmlBlockSize block = *GgmlTypeBlockSize(tensor.type);
  uint64_t num_elements = 1;
  for (const uint64_t size : tensor.shape) num_elements *= size;
  LOCKSTEP_CHECK(num_elements / block.num_elements * block.num_bytes == tensor.data.size(),
                 "tensor {} has {} bytes for {} elements", tensor.name, tensor.data.size(),
                 num_elements);
  if (!kernels::CanDequantize(tensor.type) || num_elements > 4096) return;
  std::vector<float> values(num_elements);
  CheckError(kernels::Dequantize(tensor.type, tensor.data, values));
}

void ReadEverything(const GgufFile& file, std::span<const std::byte> bytes) {
  for (const std::string_view key : file.Keys()) {
    LOCKSTEP_CHECK(file.Find(key) != nullptr, "a listed key is not found");
    CheckError(file.GetString(key).status());
    CheckError(file.GetUint(key).status());
    CheckError(file.GetFloat(key).status());
    CheckError(file.GetBool(key).status());
    CheckError(file.GetStrings(key).status());
    CheckError(file.GetInts(key).status());
  }
  for (const GgufTensor& tensor : file.tensors()) {
    LOCKSTEP_CHECK(file.FindTensor(tensor.name) == &tensor, "a listed tensor is not found");
    CheckTensor(tensor, bytes);
  }
  const absl::StatusOr<ModelConfig> config = ModelConfigFromGguf(file);
  CheckError(config.status());
  if (config.ok()) LOCKSTEP_CHECK(config->Validate().ok(), "an invalid config was accepted");
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const absl::StatusOr<lockstep::GgufFile> file = lockstep::GgufFile::Parse(bytes, "fuzz.gguf");
  lockstep::CheckError(file.status());
  if (file.ok()) lockstep::ReadEverything(*file, bytes);
  return 0;
}
