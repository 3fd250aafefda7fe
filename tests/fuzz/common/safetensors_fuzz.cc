// Headers of safetensors files.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/check.h"
#include "common/model_files/safetensors.h"
#include "common/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::SafetensorsFile;
  const auto bytes = std::as_bytes(std::span(data, size));
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Parse(bytes, "fuzz.safetensors");
  if (!file.ok()) {
    LOCKSTEP_CHECK(lockstep::Message(file.status()).starts_with("fuzz.safetensors"),
                   "an error does not name the file");
    return 0;
  }
  size_t num_data_bytes = 0;
  for (const lockstep::SafetensorsTensor& tensor : file->tensors()) {
    LOCKSTEP_CHECK(file->Find(tensor.name) == &tensor, "a listed tensor is not found");
    LOCKSTEP_CHECK(tensor.data.empty() ||
                       (tensor.data.data() > bytes.data() &&
                        tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()),
                   "tensor {} lies outside of the file", tensor.name);
    num_data_bytes += tensor.data.size();
  }
  LOCKSTEP_CHECK(num_data_bytes + sizeof(uint64_t) <= size, "tensors share bytes");
  return 0;
}
