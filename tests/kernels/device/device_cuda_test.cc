#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/device_buffer.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;

TEST(CudaStatusTest, OnlyAMachineWithoutADeviceIsUnavailable) {
  EXPECT_TRUE(CudaStatus(cudaSuccess, "call").ok());
  for (const cudaError_t error : {cudaErrorNoDevice, cudaErrorStubLibrary}) {
    EXPECT_EQ(CudaStatus(error, "call").code(), absl::StatusCode::kUnavailable)
        << cudaGetErrorName(error);
  }
  for (const cudaError_t error :
       {cudaErrorInsufficientDriver, cudaErrorSystemNotReady, cudaErrorSystemDriverMismatch,
        cudaErrorInvalidDevice, cudaErrorDevicesUnavailable, cudaErrorInitializationError,
        cudaErrorECCUncorrectable, cudaErrorUnknown}) {
    EXPECT_EQ(CudaStatus(error, "call").code(), absl::StatusCode::kInternal)
        << cudaGetErrorName(error);
  }
}

TEST(CudaDeviceTest, AnIndexBeyondTheLastDeviceIsAnError) {
  EXPECT_FALSE(DescribeCudaDevice(1 << 20).ok());
}

TEST(DeviceBufferTest, AFailureSaysWhatTheMemoryWasFor) {
  constexpr size_t kTooMany = size_t{1} << 60;
  const auto message = [](const auto& buffer) { return Message(buffer.status()); };
  EXPECT_THAT(message(DeviceBuffer::Create(kTooMany, "weights")),
              HasSubstr("weights: 1152921504606846976 bytes: cudaMalloc: "));
  EXPECT_THAT(message(PinnedBuffer::Create(kTooMany, "staging of steps")),
              HasSubstr("staging of steps: 1152921504606846976 bytes: cudaMallocHost: "));
}

class CudaDevicePresentTest : public testing::CudaTest {};

TEST_F(CudaDevicePresentTest, DescribesTheFirstDevice) {
  const absl::StatusOr<CudaDevice> device = DescribeCudaDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE(device->name.empty());
  EXPECT_GE(device->compute_capability, 90);
  EXPECT_GT(device->num_multiprocessors, 0);
  EXPECT_GT(device->memory_bytes, int64_t{1} << 30);
}

}  // namespace
}  // namespace lockstep::kernels
