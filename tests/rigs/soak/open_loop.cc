#include "tests/rigs/soak/open_loop.h"

#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>

#include "tests/rigs/quantile.h"
#include "tests/rigs/soak/clients.h"

namespace lockstep::bench {

namespace v1 = lockstep::v1;

// Deletes itself.
class OpenLoop::Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(OpenLoop* owner, bool counted) : owner_(owner), counted_(counted) {
    const OpenLoop::Options& options = owner->options_;
    std::uniform_int_distribution<uint32_t> token(0, 255);
    for (uint32_t i = 0; i < options.num_prompt_tokens; ++i) {
      request_.mutable_token_ids()->add_ids(token(owner->random_));
    }
    request_.mutable_sampling()->set_temperature(0);
    request_.mutable_stop()->set_max_tokens(options.num_output_tokens);
    request_.mutable_stop()->set_ignore_eos(true);
    context_.set_deadline(absl::ToChronoTime(absl::Now() + options.deadline));
  }

  void Start() {
    start_ = Clock::now();
    owner_->stub_->async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_delta()) num_tokens_ += response_.delta().token_ids_size();
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    end_ = Clock::now();
    status_ = status;
    owner_->OnCallDone(*this);
    delete this;
  }

 private:
  friend class OpenLoop;

  OpenLoop* const owner_;
  const bool counted_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  int num_tokens_ = 0;
  Clock::time_point start_;
  Clock::time_point end_;
  grpc::Status status_;
};

OpenLoop::OpenLoop(const Options& options)
    : options_(options),
      stub_(v1::Generation::NewStub(OpenChannel(options.address))),
      random_(options.seed) {}

OpenLoop::~OpenLoop() = default;

LoadReport OpenLoop::Run(double requests_per_second, absl::Duration warm_up,
                         absl::Duration duration) {
  const Clock::time_point start = Clock::now() + absl::ToChronoNanoseconds(warm_up);
  const Clock::time_point end = start + absl::ToChronoNanoseconds(duration);
  {
    MutexLock lock(mutex_);
    window_start_ = start;
    window_end_ = end;
    num_good_ = 0;
    refusal_ms_.clear();
    report_ = LoadReport();
    report_.offered_per_second = requests_per_second;
  }
  std::exponential_distribution<double> gap(requests_per_second);
  for (Clock::time_point next = Clock::now(); next < end; next += SecondsToDuration(gap(random_))) {
    PaceUntil(next);
    Ask(next >= start);
  }
  MutexLock lock(mutex_);
  while (num_open_ > 0) call_done_.Wait(mutex_);
  report_.goodput_per_second = static_cast<double>(num_good_) / absl::ToDoubleSeconds(duration);
  report_.refusal_p50_ms = Quantile(refusal_ms_, 0.5);
  report_.refusal_p99_ms = Quantile(refusal_ms_, 0.99);
  return report_;
}

void OpenLoop::Ask(bool counted) {
  {
    MutexLock lock(mutex_);
    ++num_open_;
    report_.num_requests += counted;
  }
  (new Call(this, counted))->Start();
}

void OpenLoop::OnCallDone(const Call& call) {
  MutexLock lock(mutex_);
  const bool complete =
      call.status_.ok() && call.num_tokens_ == static_cast<int>(options_.num_output_tokens);
  num_good_ += complete && call.end_ >= window_start_ && call.end_ < window_end_;
  if (call.counted_) {
    if (complete) {
      ++report_.num_finished;
    } else if (call.status_.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      ++report_.num_refused;
      refusal_ms_.push_back(
          std::chrono::duration<double, std::milli>(call.end_ - call.start_).count());
    } else {
      ++report_.num_failed[call.status_.ok() ? "INCOMPLETE" : StatusName(call.status_)];
    }
  }
  --num_open_;
  call_done_.NotifyAll();
}

}  // namespace lockstep::bench
