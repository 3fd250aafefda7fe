// A worker of two GPUs and one of a single GPU behind one router, as processes: each takes over the
// other's requests in the middle.
#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "tests/integration/fleet/fleet_fixture.h"
#include "tests/support/num_devices.h"

namespace lockstep::testing {
namespace {

class FleetCudaTest : public FleetTest {
 protected:
  void SetUp() override {
    const absl::Status device = kernels::DescribeCudaDevice(0).status();
    if (absl::IsUnavailable(device)) {
      GTEST_SKIP() << "no CUDA device: skipped (" << Message(device) << ")";
    }
    ASSERT_TRUE(device.ok()) << device;
    if (NumDevices() < 2) GTEST_SKIP() << "fewer GPUs than ranks: skipped";
  }

  // `devices`: of a worker's ranks. Workers share the first one.
  static std::vector<std::string> OnGpus(const std::string& devices) {
    return {"--device=cuda", "--cuda_device=" + devices, "--kv_cache_tokens=65536"};
  }
};

TEST_F(FleetCudaTest, WorkersOfDifferentDegreesTakeOverFromEachOther) {
  worker_flags_ = {OnGpus("0"), OnGpus("0,1")};
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter());
  ExpectInvisible([this] { KillWorkersInTurn(); });
}

}  // namespace
}  // namespace lockstep::testing
