#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model_files/safetensors.h"

namespace lockstep {

// The shape and type of a tensor, before its bytes are known.
struct TensorSpec {
  std::string name;
  SafetensorsDtype dtype;
  std::vector<uint64_t> shape;

  uint64_t num_bytes() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Writes one safetensors file, tensor by tensor. The header comes first, so all tensors are named
// at the start and then written in the same order. Until the file is complete, its name ends in
// ".partial", and the destructor removes it.
class SafetensorsWriter {
 public:
  // ALREADY_EXISTS if there is such a file. INTERNAL names the path and the system's error.
  // `metadata`: {"format", "pt"}, for readers that check which framework wrote the file.
  static absl::StatusOr<SafetensorsWriter> Create(
      const std::string& path, std::vector<TensorSpec> tensors,
      const std::vector<std::pair<std::string, std::string>>& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The next tensor; its bytes must be as many as the spec says.
  absl::Status Append(const TensorSpec& tensor, std::span<const std::byte> bytes);
  // Call after all tensors were written: gives the file its name.
  absl::Status Finish();

 private:
  struct File;
  explicit SafetensorsWriter(std::unique_ptr<File> file);

  std::unique_ptr<File> file_;
};

}  // namespace lockstep
