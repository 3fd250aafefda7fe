#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/runtime/mapped_file.h"

// Reader of safetensors files: 8-byte little-endian header length, JSON header, data.
// Format: github.com/huggingface/safetensors. Offsets must lie in the file, not overlap, and agree
// with dtype and shape; errors name the file, the tensor, and what was expected.
namespace lockstep {

enum class SafetensorsDtype {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2
};

std::string_view SafetensorsDtypeName(SafetensorsDtype dtype);
size_t SafetensorsDtypeBytes(SafetensorsDtype dtype);

struct SafetensorsTensor {
  std::string name;
  SafetensorsDtype dtype;
  std::vector<uint64_t> shape;  // row major, outermost first
  std::span<const std::byte> data;
};

class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // Does not own `bytes`. `name` stands for the path in errors.
  static absl::StatusOr<SafetensorsFile> Parse(std::span<const std::byte> bytes, std::string name);

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // sorted by name
  const SafetensorsTensor* Find(std::string_view name) const;              // nullptr if absent
  const std::string& name() const { return name_; }

 private:
  SafetensorsFile() = default;

  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsTensor> tensors_;
};

// All tensors of a checkpoint folder: model.safetensors, or the shards named by
// model.safetensors.index.json. A listed tensor that is missing or present twice is an error.
class SafetensorsCheckpoint {
 public:
  static absl::StatusOr<SafetensorsCheckpoint> Open(const std::string& folder);
  const SafetensorsTensor* Find(std::string_view name) const;
  std::vector<std::string_view> TensorNames() const;  // sorted

 private:
  SafetensorsCheckpoint() = default;

  std::vector<SafetensorsFile> shards_;
};

}  // namespace lockstep
