#include "tests/router/engine/fake_worker.h"

#include <algorithm>
#include <utility>

#include "router/workers/worker_contract.h"

namespace lockstep::testing {

FakeWorker::FakeWorker(const FakeModelOptions& options, uint32_t max_slots)
    : options_(options), max_slots_(max_slots) {
  Restart();
}

void FakeWorker::Restart() {
  ++incarnation_;
  draining_ = false;
  executor_.reset();
  model_ = std::make_unique<FakeForwardModel>(options_);
  executor_ = std::make_unique<worker::CpuStepRunner>(
      *model_, worker::ExecutorLimits{.max_slots = max_slots_}, incarnation_);
}

router::LinkUp FakeWorker::Claim() {
  asked_back_ = false;
  executor_->BeginLease(++epoch_);
  router::LinkUp up{.epoch = epoch_, .description = {}};
  const worker::StepBounds& bounds = executor_->bounds();
  worker::v1::DescribeResponse& description = up.description;
  description.set_protocol_version(router::kStepProtocolVersion);
  description.set_incarnation(incarnation_);
  description.set_model_fingerprint(model_->info().model_fingerprint);
  description.set_weights_fingerprint(weights_fingerprint_);
  description.set_numerics_id(numerics_id_);
  description.set_device(model_->info().device);
  description.set_max_slots(bounds.max_slots);
  description.set_max_step_tokens(bounds.max_step_tokens);
  description.set_max_context_tokens(bounds.max_context_tokens);
  description.set_vocab_size(bounds.vocab_size);
  description.set_max_logprobs(bounds.max_logprobs);
  description.set_max_steps_in_flight(4);
  description.set_max_decode_iterations(bounds.max_decode_iterations);
  for (const worker::KvGroupInfo& from : bounds.kv_groups) {
    worker::v1::KvGroup* const group = description.add_kv_groups();
    group->set_block_size_tokens(bounds.block_size_tokens);
    group->set_num_blocks(from.num_blocks);
    group->set_window_tokens(from.window_tokens);
  }
  return up;
}

router::LinkResult FakeWorker::Execute(const worker::v1::StepRequest& step) {
  router::LinkResult event;
  executor_->Execute(step, &event.result);
  event.result.set_draining(draining_);
  event.result.set_asked_back(asked_back_);
  return event;
}

void FakeWorker::SetBits(uint64_t numerics_id, uint64_t weights_fingerprint) {
  numerics_id_ = numerics_id;
  weights_fingerprint_ = weights_fingerprint;
}

std::vector<TokenId> GreedyTokens(const FakeModelOptions& options, std::vector<TokenId> prompt,
                                  uint32_t num_tokens) {
  const FakeForwardModel model(options);
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < num_tokens; ++i) {
    const std::vector<float> logits = model.ExpectedLogits(prompt);
    tokens.push_back(
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    prompt.push_back(tokens.back());
  }
  return tokens;
}

void ManualLink::DropLease(uint64_t, const absl::Status& reason) {
  drop_reason_ = reason;
  sent_.clear();
}

std::optional<router::LinkResult> ManualLink::RunNext() {
  if (sent_.empty()) return std::nullopt;
  router::LinkResult result = worker_.Execute(sent_.front());
  sent_.pop_front();
  return result;
}

std::optional<router::LinkResult> ManualLink::RefuseNext() {
  if (sent_.empty()) return std::nullopt;
  router::LinkResult event;
  event.result.set_epoch(sent_.front().epoch());
  event.result.set_incarnation(worker_.incarnation());
  event.result.set_step_id(sent_.front().step_id());
  event.result.mutable_refusal()->set_code(9);
  event.result.mutable_refusal()->set_message("not today");
  sent_.pop_front();
  return event;
}

router::LinkDown ManualLink::Break(const absl::Status& reason) {
  sent_.clear();
  return {.epoch = worker_.epoch(), .reason = reason};
}

ThreadedLink::ThreadedLink(const FakeModelOptions& options, uint32_t max_slots)
    : worker_(options, max_slots) {}

ThreadedLink::~ThreadedLink() { Stop(); }

void ThreadedLink::Start(router::LinkEventSink* sink) {
  sink_ = sink;
  thread_ = NamedThread("fake-worker", [this] { Run(); });
}

void ThreadedLink::Send(worker::v1::StepRequest request) {
  {
    MutexLock lock(mutex_);
    steps_.push_back(std::move(request));
  }
  changed_.NotifyAll();
}

void ThreadedLink::DropLease(uint64_t, const absl::Status&) { Restart(); }

void ThreadedLink::Push(std::optional<Command> command) {
  {
    MutexLock lock(mutex_);
    if (command.has_value()) commands_.push_back(*command);
  }
  changed_.NotifyAll();
}

void ThreadedLink::Restart() { Push(Command::kRestart); }

void ThreadedLink::Kill() { Push(Command::kKill); }

void ThreadedLink::Drain() { Push(Command::kDrain); }

void ThreadedLink::Pause() {
  MutexLock lock(mutex_);
  paused_ = true;
}

void ThreadedLink::Resume() {
  {
    MutexLock lock(mutex_);
    paused_ = false;
  }
  changed_.NotifyAll();
}

void ThreadedLink::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void ThreadedLink::Run() {
  sink_->OnLinkEvent(worker_.Claim());
  for (;;) {
    std::optional<Command> command;
    std::optional<worker::v1::StepRequest> step;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && commands_.empty() && (paused_ || steps_.empty())) changed_.Wait(mutex_);
      if (stopping_) return;
      if (!commands_.empty()) {
        command = commands_.front();
        commands_.pop_front();
      } else {
        step = std::move(steps_.front());
        steps_.pop_front();
      }
    }
    if (step.has_value()) {
      // Steps of a lease that is over may still come in; the stream would have dropped them.
      if (step->epoch() == worker_.epoch()) sink_->OnLinkEvent(worker_.Execute(*step));
      continue;
    }
    if (*command == Command::kDrain) {
      worker_.Drain();
      continue;
    }
    sink_->OnLinkEvent(router::LinkDown{.epoch = worker_.epoch(),
                                        .reason = absl::UnavailableError("the worker died")});
    worker_.Restart();
    if (*command == Command::kRestart) sink_->OnLinkEvent(worker_.Claim());
  }
}

}  // namespace lockstep::testing
