// A hostile worker: its StepResults through the router's decoding and into the scheduler. Whatever
// it says, requests and blocks add up, and the requests end well with the next, honest worker.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/core/scheduler.h"
#include "router/workers/step_codec.h"
#include "tests/fuzz/steps/framed_input.h"
#include "tests/router/core/fcfs_policy.h"

namespace lockstep::router {
namespace {

namespace wire = worker::v1;

// Of a frame: what the message is put on top of.
constexpr uint8_t kOnTopOfAnAnswer = 1;  // an honest answer to the step; else an empty message
constexpr uint8_t kRightStepId = 2;
constexpr uint8_t kRunAhead = 4;   // another step is sent before the answer is read
constexpr uint8_t kTwoGroups = 8;  // of the first frame: the worker has a second KV group

const WorkerLimits kLimits = {.kv_groups = {{.block_size_tokens = 4, .num_blocks = 24}},
                              .max_slots = 4,
                              .max_step_tokens = 16,
                              .max_context_tokens = 64,
                              .max_decode_iterations = 4,
                              .max_steps_in_flight = 3};

WorkerLimits LimitsOf(bool two_groups) {
  WorkerLimits limits = kLimits;
  if (two_groups) {
    limits.kv_groups.push_back({.block_size_tokens = 4,
                                .num_blocks = 8,
                                .retention = Retention::kWindow,
                                .window_tokens = 6});
  }
  return limits;
}

std::shared_ptr<const Request> MakeRequest(RequestKey key, uint32_t num_prompt_tokens,
                                           uint32_t num_samples, int32_t num_logprobs) {
  auto request = std::make_shared<Request>();
  request->key = key;
  request->id = "fuzz";
  for (uint32_t i = 0; i < num_prompt_tokens; ++i) request->prompt_tokens.push_back(i % 7);
  request->num_samples = num_samples;
  request->sampling.max_new_tokens = 9;
  request->sampling.stop_token_ids = {3};
  request->sampling.num_logprobs = num_logprobs;
  request->sampling.num_prompt_logprobs = num_logprobs;
  return request;
}

class World {
 public:
  explicit World(bool two_groups)
      : limits_(LimitsOf(two_groups)), scheduler_(Config(), testing::MakeFcfsPolicy()) {
    Attach();
    for (const auto& request : {MakeRequest(1, 5, 1, -1), MakeRequest(2, 21, 2, -1),
                                MakeRequest(3, 9, 1, 2), MakeRequest(4, 30, 1, -1)}) {
      LOCKSTEP_CHECK(scheduler_.Submit(request, Now()).ok(), "the requests fit");
    }
  }

  void Answer(const lockstep::testing::Frame& frame) {
    Plan();
    if ((frame.options & kRunAhead) != 0) Plan();
    if (plans_.empty()) return;
    const StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    wire::StepResult result = HonestAnswer(plan);
    if ((frame.options & kOnTopOfAnAnswer) == 0) result.Clear();
    const std::string bytes(frame.bytes.begin(), frame.bytes.end());
    if (!result.MergeFromString(bytes)) return Lose();
    if ((frame.options & kRightStepId) != 0) result.set_step_id(plan.step_id);
    absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
    if (!outcome.ok()) return Lose();
    if (!scheduler_.Apply(*std::move(outcome), Now()).ok()) return Lose();
    Check();
  }

  // What is left goes to a worker that behaves.
  void Finish() {
    Lose();
    constexpr int kMaxSteps = 2000;
    for (int i = 0; i < kMaxSteps && !scheduler_.Idle(); ++i) {
      Plan();
      LOCKSTEP_CHECK(!plans_.empty(), "there is work, so there is a step");
      const StepPlan plan = std::move(plans_.front());
      plans_.pop_front();
      absl::StatusOr<StepOutcome> outcome = DecodeResult(HonestAnswer(plan), plan);
      LOCKSTEP_CHECK(outcome.ok(), "{}", Message(outcome.status()));
      const absl::Status applied = scheduler_.Apply(*std::move(outcome), Now());
      LOCKSTEP_CHECK(applied.ok(), "{}", Message(applied));
      Check();
    }
    LOCKSTEP_CHECK(scheduler_.Idle(), "every request ends");
    LOCKSTEP_CHECK(num_finished_ == 5, "{} sequences of 5 ended", num_finished_);
  }

 private:
  static SchedulerConfig Config() {
    SchedulerConfig config;
    config.max_steps_in_flight = 3;
    config.max_decode_iterations = 4;
    return config;
  }
  Instant Now() {
    now_ += absl::Milliseconds(1);
    return now_;
  }
  void Attach() {
    known_ = std::vector<Slot>(kLimits.max_slots);
    const absl::Status status = scheduler_.AttachWorker(limits_, Now());
    LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
  }
  void Lose() {
    plans_.clear();
    scheduler_.DetachWorker(absl::UnavailableError("lost"), Now());
    Check();
    Attach();
  }
  void Plan() {
    std::optional<StepPlan> plan = scheduler_.NextStep(Now());
    if (!plan.has_value()) return;
    EncodeStep(*plan, /*epoch=*/1);
    plans_.push_back(*std::move(plan));
  }
  void Check() {
    const absl::Status status = scheduler_.CheckIntegrity();
    LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
    for (const SchedulerEvent& event : scheduler_.TakeEvents()) {
      num_finished_ += std::holds_alternative<FinishedEvent>(event) ? 1 : 0;
    }
  }

  struct Slot {
    std::shared_ptr<const Request> request;
    uint32_t num_known = 0;
    uint32_t num_computed = 0;
    bool inert = false;
  };

  // Token 5 all the way, until the length ends it.
  wire::StepResult HonestAnswer(const StepPlan& plan) {
    wire::StepResult result;
    result.set_step_id(plan.step_id);
    if (plan.resync) known_ = std::vector<Slot>(kLimits.max_slots);
    for (const StartedSlot& started : plan.started) {
      known_[started.slot] = {started.request, static_cast<uint32_t>(started.known_tokens.size()),
                              started.num_computed_tokens, false};
      first_prompt_logprob_[started.slot] = started.first_prompt_logprob;
    }
    for (const RunRow& row : plan.rows) AnswerRow(plan, row, result);
    return result;
  }

  void AnswerRow(const StepPlan& plan, const RunRow& row, wire::StepResult& result) {
    Slot& slot = known_[row.slot];
    if (slot.inert) return result.add_inert_slots(row.slot);
    LOCKSTEP_CHECK(slot.request != nullptr, "slot {} was started", row.slot);
    const uint32_t begin = slot.num_computed;
    slot.num_computed += row.num_tokens;
    AddPromptLogprobs(slot, {begin, row.slot}, result);
    if (slot.num_computed < slot.num_known) return;
    const uint32_t max_known = static_cast<uint32_t>(slot.request->prompt_tokens.size()) +
                               slot.request->sampling.max_new_tokens;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan.decode_iterations && slot.num_known < max_known; ++i) {
      slot.num_computed = slot.num_known++;
      result.add_token_ids(5);
      if (slot.request->sampling.num_logprobs >= 0) AddLogprobs(row.slot, result.add_logprobs());
      ++count;
    }
    result.add_sampled_slots(row.slot);
    result.add_sampled_counts(count);
    if (slot.num_known < max_known) return;
    slot.inert = true;
    result.add_stopped_slots(row.slot);
    result.add_stop_causes(wire::STOP_CAUSE_LENGTH);
  }

  static void AddLogprobs(SlotId slot, wire::TokenLogprobs* entry) {
    entry->set_slot(slot);
    entry->set_token_id(5);
    entry->set_logprob(-1);
    entry->set_rank(1);
    for (const uint32_t id : {5, 6}) {
      entry->add_top_ids(id);
      entry->add_top_logprobs(-1);
    }
  }

  struct Chunk {
    uint32_t begin;
    SlotId slot;
  };
  void AddPromptLogprobs(const Slot& slot, const Chunk& chunk, wire::StepResult& result) {
    const uint32_t first = first_prompt_logprob_[chunk.slot];
    if (first == 0) return;
    const auto num_prompt = static_cast<uint32_t>(slot.request->prompt_tokens.size());
    // Computing position p tells of the prompt's token p + 1.
    const uint32_t begin = std::max(chunk.begin + 1, first);
    const uint32_t end = std::min(slot.num_computed + 1, num_prompt);
    if (begin >= end) return;
    wire::PromptLogprobs* const entries = result.add_prompt_logprobs();
    entries->set_slot(chunk.slot);
    entries->set_first_position(begin);
    for (uint32_t position = begin; position < end; ++position) {
      AddLogprobs(chunk.slot, entries->add_entries());
      entries->mutable_entries()->rbegin()->set_token_id(slot.request->prompt_tokens[position]);
    }
  }

  Instant now_ = Instant();
  const WorkerLimits limits_;
  Scheduler scheduler_;
  std::deque<StepPlan> plans_;
  std::vector<Slot> known_;
  uint32_t first_prompt_logprob_[4] = {};
  uint32_t num_finished_ = 0;
};

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMaxFrames = 200;
  lockstep::testing::FramedInput input(data, size);
  const bool two_groups = size > 0 && (data[0] & lockstep::router::kTwoGroups) != 0;
  lockstep::router::World world(two_groups);
  for (int i = 0; i < kMaxFrames; ++i) {
    const std::optional<lockstep::testing::Frame> frame = input.Next();
    if (!frame.has_value()) break;
    world.Answer(*frame);
  }
  world.Finish();
  return 0;
}
