#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace lockstep::kernels {

// Memory of one kind, freed with the object. Addresses are aligned to 256 bytes.
template <typename Kind>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  // RESOURCE_EXHAUSTED if memory is short. The error says how many bytes, and for what.
  static absl::StatusOr<CudaBuffer> Create(size_t num_bytes, std::string_view what = "a buffer") {
    void* data = nullptr;
    if (absl::Status status = Kind::Allocate(num_bytes, what, &data); !status.ok()) return status;
    CudaBuffer buffer;
    buffer.data_ = data;
    buffer.num_bytes_ = num_bytes;
    return buffer;
  }
  CudaBuffer(CudaBuffer&& other) noexcept { Swap(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    CudaBuffer(std::move(other)).Swap(*this);
    return *this;
  }
  ~CudaBuffer() {
    if (data_ != nullptr) Kind::Free(data_);
  }

  template <typename T = std::byte>
  T* data() const {
    return static_cast<T*>(data_);
  }
  size_t num_bytes() const { return num_bytes_; }

 private:
  void Swap(CudaBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
  }

  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

struct DeviceMemory {
  static absl::Status Allocate(size_t num_bytes, std::string_view what, void** data);
  static void Free(void* data);
};
// Host memory that the device reads and writes at full speed, and asynchronously.
struct PinnedMemory {
  static absl::Status Allocate(size_t num_bytes, std::string_view what, void** data);
  static void Free(void* data);
};

using DeviceBuffer = CudaBuffer<DeviceMemory>;
using PinnedBuffer = CudaBuffer<PinnedMemory>;

}  // namespace lockstep::kernels
