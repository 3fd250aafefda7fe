#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model_files/safetensors.h"

namespace lockstep::kernels {

// A tensor that a writer made: the inverse of what a decoder reads. Owns its bytes.
struct EncodedTensor {
  std::string suffix;  // "weight_scale"; the module's name and a dot stand in front of it
  SafetensorsDtype dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;

  // Is valid as long as this tensor.
  SafetensorsTensor View(const std::string& module) const {
    return {.name = module + "." + suffix, .dtype = dtype, .shape = shape, .data = bytes};
  }
};

template <typename T>
std::vector<std::byte> BytesOf(std::span<const T> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
EncodedTensor MakeTensor(std::string suffix, SafetensorsDtype dtype, std::vector<int64_t> shape,
                         const std::vector<T>& values) {
  return {.suffix = std::move(suffix),
          .dtype = dtype,
          .shape = std::vector<uint64_t>(shape.begin(), shape.end()),
          .bytes = BytesOf(std::span<const T>(values))};
}

}  // namespace lockstep::kernels
