#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/device/device_buffer.h"
#include "kernels/slots/host_copies.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::DeviceArray;

class HostCopiesCudaTest : public testing::CudaTest {
 protected:
  // 0, 1, 2, ... in pinned memory.
  static PinnedBuffer Numbers(size_t count) {
    absl::StatusOr<PinnedBuffer> buffer =
        PinnedBuffer::Create(count * sizeof(uint32_t), "numbers of a test");
    EXPECT_THAT(buffer.status(), IsOk());
    std::iota(buffer->data<uint32_t>(), buffer->data<uint32_t>() + count, 0);
    return *std::move(buffer);
  }
};

TEST_F(HostCopiesCudaTest, CopiesWhatWasAddedAndNothingElse) {
  constexpr size_t kMax = HostCopies::kMaxSegmentWords;
  const std::vector<size_t> sizes = {1,    2,        127,  128,      129,
                                     1000, kMax - 1, kMax, kMax + 1, 5 * kMax + 77};
  const PinnedBuffer host = Numbers(2 * sizes.back());
  HostCopies copies;
  std::vector<std::unique_ptr<DeviceArray<uint32_t>>> arrays;
  for (const size_t size : sizes) {
    arrays.push_back(std::make_unique<DeviceArray<uint32_t>>(size));
    copies.Add(arrays.back()->data(), host.data<uint32_t>() + size, size * sizeof(uint32_t));
  }
  ASSERT_THAT(copies.Enqueue(stream_), IsOk());
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<uint32_t> expected(sizes[i]);
    std::iota(expected.begin(), expected.end(), sizes[i]);
    EXPECT_EQ(arrays[i]->Read(), expected) << sizes[i] << " words";
    arrays[i]->ExpectGuardsIntact();
  }
}

TEST_F(HostCopiesCudaTest, TakesMoreCopiesThanOneLaunchHas) {
  constexpr size_t kCount = 1000;
  const PinnedBuffer host = Numbers(kCount);
  const DeviceArray<uint32_t> array(kCount);
  HostCopies copies;
  for (size_t i = 0; i < kCount; ++i) {
    copies.Add(array.data() + i, host.data<uint32_t>() + (kCount - 1 - i), sizeof(uint32_t));
  }
  ASSERT_THAT(copies.Enqueue(stream_), IsOk());
  std::vector<uint32_t> expected(kCount);
  std::iota(expected.rbegin(), expected.rend(), 0);
  EXPECT_EQ(array.Read(), expected);
  array.ExpectGuardsIntact();
}

TEST_F(HostCopiesCudaTest, ForgetsWhatItEnqueued) {
  const PinnedBuffer host = Numbers(2);
  DeviceArray<uint32_t> array(1);
  HostCopies copies;
  ASSERT_THAT(copies.Enqueue(stream_), IsOk());
  copies.Add(array.data(), host.data<uint32_t>() + 1, sizeof(uint32_t));
  ASSERT_THAT(copies.Enqueue(stream_), IsOk());
  EXPECT_EQ(array.Read(), std::vector<uint32_t>{1});
  array.Write(std::vector<uint32_t>{7});
  ASSERT_THAT(copies.Enqueue(stream_), IsOk());
  EXPECT_EQ(array.Read(), std::vector<uint32_t>{7});
}

// Steps reuse pinned memory once the device has read it: a copy must read what is there now, also
// where launches overlap.
TEST_F(HostCopiesCudaTest, ReadsWhatTheHostHasWrittenSince) {
  constexpr size_t kWords = 4 * HostCopies::kMaxSegmentWords;
  constexpr uint32_t kRounds = 50;
  const PinnedBuffer host = Numbers(kWords);
  const DeviceArray<uint32_t> array(kWords);
  CudaStream overlapped = stream_;
  overlapped.overlap_launches = true;
  HostCopies copies;
  for (uint32_t round = 0; round < kRounds; ++round) {
    uint32_t* const words = host.data<uint32_t>();
    std::iota(words, words + kWords, round);
    copies.Add(array.data(), words, kWords * sizeof(uint32_t));
    ASSERT_THAT(copies.Enqueue(overlapped), IsOk());
    std::vector<uint32_t> expected(kWords);
    std::iota(expected.begin(), expected.end(), round);
    ASSERT_EQ(array.Read(), expected) << "round " << round;
  }
}

// Each copy overwrites what the copy before it wrote, in the order of the calls.
TEST_F(HostCopiesCudaTest, LaterCopiesComeLater) {
  constexpr size_t kWords = 100 * HostCopies::kMaxSegmentWords;
  constexpr uint32_t kRounds = 50;
  const PinnedBuffer host = Numbers(kWords + kRounds);
  const DeviceArray<uint32_t> array(kWords);
  CudaStream overlapped = stream_;
  overlapped.overlap_launches = true;
  HostCopies copies;
  for (uint32_t round = 0; round < kRounds; ++round) {
    // If the short copy did not wait for the long one, the last word would be the long one's.
    copies.Add(array.data(), host.data<uint32_t>() + round, kWords * sizeof(uint32_t));
    ASSERT_THAT(copies.Enqueue(overlapped), IsOk());
    copies.Add(array.data() + kWords - 1, host.data<uint32_t>(), sizeof(uint32_t));
    ASSERT_THAT(copies.Enqueue(overlapped), IsOk());
  }
  std::vector<uint32_t> expected(kWords);
  std::iota(expected.begin(), expected.end(), kRounds - 1);
  expected.back() = 0;
  EXPECT_EQ(array.Read(), expected);
}

}  // namespace
}  // namespace lockstep::kernels
