#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "kernels/kv_cache/kv_type.h"
#include "tests/integration/invariance/invariance_workload.h"

namespace lockstep::testing {

// Whether this build of a test has a planted fault, which the test must find.
#ifdef LOCKSTEP_EXPECT_DIFFERENCES
inline constexpr bool kExpectDifferences = true;
#else
inline constexpr bool kExpectDifferences = false;
#endif

struct ModelCase {
  std::string name;
  std::string path;
  uint32_t num_blocks = 0;  // of the roomy worker that serves each request alone
  WorkloadShape shape;
  uint32_t num_restarts = 0;
  int num_threads = 1;
  bool expect_pressure = true;  // assert that preemptions and overlaps abounded
  uint32_t min_blocks = 0;      // of an adversarial life: the longest request must fit
  bool random_weights = false;
  kernels::KvType kv_type = kernels::KvType::kBFloat16;
  std::optional<kernels::InstructionSet> instruction_set = std::nullopt;  // none: the best
  // Ranks that compute the model. The worker that serves each request alone has the first of these;
  // the adversary's lives have all of them in turn, so requests move from one to the next.
  std::vector<uint32_t> degrees = {1};
};

// The checkpoint tests/golden/NAME, under pressure.
ModelCase TinyCase(const std::string& name);

// Runs the workload alone and together, asserts that the adversary did its work, and compares every
// token, log-probability and logits row that the worker shows. With `expect_differences` the worker
// is built with a planted fault and the comparison must find it.
void CheckInvarianceOf(const WorkerUnderTest& worker, const ModelCase& model_case,
                       bool expect_differences);
// The first worker serves each request alone. The adversary's lives have all workers in turn, so
// requests move from one to the next.
void CheckInvarianceInTurn(const std::vector<WorkerUnderTest>& workers, const ModelCase& model_case,
                           bool expect_differences);
// The same on the CPU, with the model at model_case.path.
void CheckInvariance(const ModelCase& model_case, bool expect_differences);

}  // namespace lockstep::testing
