// A hostile router: its StepRequests through the worker's validation and into the executor. Each is
// refused whole or executed, and the next lease is served as if nothing had been. The options of
// the first frame say how many KV groups the model has.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/check.h"
#include "tests/fuzz/steps/framed_input.h"
#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::worker {
namespace {

constexpr uint64_t kEpoch = 7;
constexpr uint8_t kRightNumbers = 1;  // of a frame: epoch and step id are set to what is expected
constexpr uint8_t kTwoGroups = 2;     // of the first frame: a second KV group has a window

void CheckServes(CpuStepRunner& executor, uint64_t epoch, bool two_groups) {
  executor.EndLease();
  executor.BeginLease(epoch);
  lockstep::testing::StepSequence steps(epoch);
  v1::StepRequest step = steps.Next();
  *step.add_started() = lockstep::testing::MakeStarted(
      0, {1, 2, 3}, lockstep::testing::BlockRange(0, 2), /*max_total_tokens=*/8);
  if (two_groups) lockstep::testing::AddGroupBlocks(*step.mutable_started(0), 0, {5, 4});
  lockstep::testing::AddRow(step, 0, 3);
  v1::StepResult result;
  executor.Execute(step, &result);
  LOCKSTEP_CHECK(!result.has_refusal(), "{}", result.refusal().message());
  LOCKSTEP_CHECK(result.token_ids_size() == 1, "{} tokens", result.token_ids_size());
}

void Run(lockstep::testing::FramedInput input, bool two_groups) {
  constexpr int kMaxFrames = 200;
  lockstep::testing::FakeForwardModel model(two_groups ? lockstep::testing::FakeModelWithWindow()
                                                       : lockstep::testing::FakeModelOptions());
  model.WriteEveryPlace();
  CpuStepRunner executor(model, {.max_slots = 8}, /*incarnation=*/1);
  executor.BeginLease(kEpoch);
  uint64_t step_id = 1;
  for (int i = 0; i < kMaxFrames; ++i) {
    const std::optional<lockstep::testing::Frame> frame = input.Next();
    if (!frame.has_value()) break;
    v1::StepRequest step;
    if (!step.ParseFromArray(frame->bytes.data(), static_cast<int>(frame->bytes.size()))) continue;
    if ((frame->options & kRightNumbers) != 0) {
      step.set_epoch(kEpoch);
      step.set_step_id(step_id);
    }
    v1::StepResult result;
    executor.Execute(step, &result);
    LOCKSTEP_CHECK(result.sampled_counts_size() == 0 ||
                       result.sampled_counts_size() == result.sampled_slots_size(),
                   "counts and slots agree");
    if (result.has_refusal()) {
      LOCKSTEP_CHECK(result.refusal().code() != 0 && !result.refusal().message().empty(),
                     "a refusal says why");
      LOCKSTEP_CHECK(result.sampled_slots_size() == 0, "what is refused does nothing");
    }
    // A step counts once its numbers were right, whatever became of the rest.
    if (step.epoch() == kEpoch && step.step_id() == step_id) ++step_id;
  }
  CheckServes(executor, kEpoch + 1, two_groups);
}

}  // namespace
}  // namespace lockstep::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool two_groups = size > 0 && (data[0] & lockstep::worker::kTwoGroups) != 0;
  lockstep::worker::Run(lockstep::testing::FramedInput(data, size), two_groups);
  return 0;
}
