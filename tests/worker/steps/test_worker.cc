#include "tests/worker/steps/test_worker.h"

namespace lockstep::testing {

namespace v1 = worker::v1;

TestWorker::TestWorker(const FakeModelOptions& options, worker::ExecutorLimits limits,
                       worker::Drafter* drafter, ConstraintEngine* constraints)
    : model_(options), executor_(model_, limits, kIncarnation, drafter, constraints) {
  executor_.set_logits_observer([this](const worker::LogitsObservation& seen) {
    logit_hashes_[seen.slot][seen.position] = Hash64(std::as_bytes(seen.logits));
  });
  executor_.BeginLease(kEpoch);
}

v1::StepResult TestWorker::Run(const v1::StepRequest& step) {
  v1::StepResult result;
  executor_.Execute(step, &result);
  EXPECT_EQ(result.epoch(), kEpoch);
  EXPECT_EQ(result.incarnation(), kIncarnation);
  EXPECT_EQ(result.step_id(), step.step_id());
  return result;
}

v1::StepResult TestWorker::RunAccepted(const v1::StepRequest& step) {
  v1::StepResult result = Run(step);
  EXPECT_FALSE(result.has_refusal()) << result.refusal().message();
  return result;
}

v1::StepResult TestWorker::Prefill(const v1::StartedSlot& started) {
  v1::StepRequest step = NextStep();
  *step.add_started() = started;
  AddRow(step, started.slot(), started.known_tokens_size() - started.num_computed_tokens());
  return RunAccepted(step);
}

v1::StepResult TestWorker::Decode(SlotId slot) {
  v1::StepRequest step = NextStep();
  step.add_run_slots(slot);
  return RunAccepted(step);
}

std::vector<TokenId> Tokens(const v1::StepResult& result) {
  return {result.token_ids().begin(), result.token_ids().end()};
}

TokenId ArgMax(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// What greedy decoding gives, straight from the model's definition.
std::vector<TokenId> GreedyReference(const FakeForwardModel& model, std::vector<TokenId> tokens,
                                     uint32_t num_new) {
  const size_t num_prompt = tokens.size();
  for (uint32_t i = 0; i < num_new; ++i) tokens.push_back(ArgMax(model.ExpectedLogits(tokens)));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(num_prompt), tokens.end()};
}

v1::SlotSampling RichSampling(uint32_t max_total_tokens) {
  v1::SlotSampling sampling = GreedySampling(max_total_tokens);
  sampling.set_temperature(1.5f);
  sampling.set_top_p(0.95f);
  sampling.set_top_k(40);
  sampling.set_min_p(0.001f);
  sampling.set_presence_penalty(0.5f);
  sampling.set_frequency_penalty(0.25f);
  sampling.set_repetition_penalty(1.3f);
  sampling.set_seed(0x123456789abcdef0);
  sampling.set_sample_index(2);
  sampling.add_logit_bias_ids(5);
  sampling.add_logit_bias_values(1.5f);
  return sampling;
}

}  // namespace lockstep::testing
