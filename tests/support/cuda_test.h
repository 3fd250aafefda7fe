#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"

namespace lockstep::testing {

// Base of tests that need a GPU: skips, visibly, where there is none. CI has none; the words of the
// message are what ctest takes for "Skipped".
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<kernels::CudaDevice> device = kernels::DescribeCudaDevice(0);
    if (absl::IsUnavailable(device.status())) {
      GTEST_SKIP() << "no CUDA device: skipped (" << Message(device.status()) << ")";
    }
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), cudaSuccess);
    stream_.num_multiprocessors = device->num_multiprocessors;
  }
  void TearDown() override {
    if (stream_.handle != nullptr) {
      EXPECT_EQ(cudaStreamSynchronize(stream_.handle), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream_.handle), cudaSuccess);
    }
  }

  void Synchronize() const {
    const cudaError_t error = cudaStreamSynchronize(stream_.handle);
    ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }

  kernels::CudaStream stream_;
};

// A device copy of host values; reads back what kernels wrote. Padding of `guard_elements` before
// and after is filled with 0xFF bytes (NaN) and checked by ExpectGuardsIntact.
template <typename T>
class DeviceArray {
 public:
  static constexpr size_t kGuardElements = 512 / sizeof(T);

  // Every byte 0xFF: NaN in every floating-point type.
  explicit DeviceArray(size_t count) : count_(count) {
    absl::StatusOr<kernels::DeviceBuffer> buffer =
        kernels::DeviceBuffer::Create((count + 2 * kGuardElements) * sizeof(T));
    LOCKSTEP_CHECK(buffer.ok(), "{}", Message(buffer.status()));
    buffer_ = *std::move(buffer);
    Expect(cudaMemset(buffer_.data(), 0xFF, buffer_.num_bytes()));
    // The streams of the tests do not wait for the one that this goes on.
    Expect(cudaDeviceSynchronize());
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) { Write(values); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}

  T* data() const { return buffer_.data<T>() + kGuardElements; }
  size_t size() const { return count_; }

  void Write(std::span<const T> values) {
    LOCKSTEP_CHECK(values.size() == count_, "{} values for {}", values.size(), count_);
    Expect(cudaMemcpy(data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
    Expect(cudaDeviceSynchronize());
  }
  // Waits for all streams.
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    Expect(cudaDeviceSynchronize());
    Expect(cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  // Nothing was written before the first or after the last element.
  void ExpectGuardsIntact() const {
    std::vector<unsigned char> bytes(buffer_.num_bytes());
    Expect(cudaMemcpy(bytes.data(), buffer_.data(), bytes.size(), cudaMemcpyDeviceToHost));
    const size_t guard_bytes = kGuardElements * sizeof(T);
    for (size_t i = 0; i < guard_bytes; ++i) {
      ASSERT_EQ(bytes[i], 0xFF) << "written before the array";
      ASSERT_EQ(bytes[bytes.size() - 1 - i], 0xFF) << "written after the array";
    }
  }

 private:
  static void Expect(cudaError_t error) {
    LOCKSTEP_CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error));
  }

  size_t count_;
  kernels::DeviceBuffer buffer_;
};

}  // namespace lockstep::testing
