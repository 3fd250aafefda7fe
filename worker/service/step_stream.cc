#include "worker/service/step_stream.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

// For a stream with a lease. Before that its window is small, because any client may open a stream.
constexpr uint32_t kLeaseWindowBytes = 1 << 20;

}  // namespace

void StepStream::OnMessage(const std::string& bytes) {
  if (ending_) return;
  v1::StepRequest message;
  if (!message.ParseFromString(bytes)) return End(InvalidArgument("the message cannot be parsed"));
  if (epoch_ == 0) {
    HandleClaim(message);
  } else {
    HandleStep(std::move(message));
  }
}

void StepStream::HandleClaim(const v1::StepRequest& message) {
  if (absl::Status status = wiring_.host->OnClaim(*this, message); !status.ok()) {
    return End(status);
  }
  epoch_ = message.epoch();
  ++num_unanswered_;
  const bool queued = wiring_.executor->BeginLease(epoch_, [this] {
    v1::StepResult answer;
    answer.set_epoch(epoch_);
    answer.set_incarnation(wiring_.host->incarnation());
    Send(std::move(answer));
  });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for the lease of every stream");
  connection_->WidenWindow(call_, kLeaseWindowBytes);
  connection_->Allow(call_, wiring_.max_unanswered - 1, wiring_.max_message_bytes);
}

void StepStream::HandleStep(v1::StepRequest message) {
  ++num_unanswered_;
  const bool queued = wiring_.executor->Submit(
      epoch_, std::move(message), [this](v1::StepResult result, const StepStats& stats) {
        wiring_.host->RecordStep(result, stats);
        Send(std::move(result));
      });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for every step that may be unanswered");
}

void StepStream::Send(v1::StepResult result) {
  result.set_draining(wiring_.host->draining());
  result.set_asked_back(asked_back_);
  if (!ending_) connection_->Send(call_, FrameMessage(result));
  // A router that does not read its results must not fill the memory.
  if (connection_->num_unsent_bytes() > 2 * wiring_.max_message_bytes) connection_->Cancel(call_);
  const uint32_t num_left = --num_unanswered_;
  connection_->Allow(call_, 1, wiring_.max_message_bytes);
  // The service thread need not wake for an answer if nothing waits for it.
  if (num_left > 0 || !(input_over_ || asked_back_ || wiring_.host->draining())) return;
  // The end of the lease is queued after this, so the stream exists until the task has run.
  wiring_.host->Post([this] { OnAnswered(); });
}

void StepStream::OnAnswered() {
  if (num_unanswered_ > 0 || ending_) return;
  if (input_over_) return End(absl::OkStatus());
  wiring_.host->OnQuiet(*this);
}

void StepStream::OnHalfClose() {
  // The router still gets the answers to its earlier steps.
  input_over_ = true;
  if (num_unanswered_ == 0) End(absl::OkStatus());
}

void StepStream::OnCallEnd() {
  call_over_ = true;
  End(absl::CancelledError("the call was cancelled"));
  TellIfOver();
}

void StepStream::End(const absl::Status& status) {
  if (ending_.exchange(true)) return;
  // Ends the lease before the call. A router that learns from the call's end that it lost the lease
  // may rely on this: none of its steps starts any more.
  if (epoch_ != 0) EndLease();
  connection_->Finish(call_, status);
}

void StepStream::EndLease() {
  lease_ending_ = true;
  wiring_.host->OnLeaseEnd(epoch_);
  // The executor's queue has this after every step of the stream. So when it runs, the executor has
  // no work of the stream left.
  const bool queued = wiring_.executor->EndLease(
      epoch_, [this] { wiring_.host->Post([this] { OnLeaseEnded(); }); });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for the end of every lease");
}

void StepStream::OnLeaseEnded() {
  lease_ending_ = false;
  TellIfOver();
}

void StepStream::TellIfOver() {
  if (call_over_ && !lease_ending_) wiring_.host->OnOver(*this);
}

}  // namespace lockstep::worker
