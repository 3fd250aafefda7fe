#include "worker/service/step_stream.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Message(status));
}

}  // namespace

StepStream::StepStream(const Wiring& wiring) : wiring_(wiring), stream_(&context_) {
  context_.AsyncNotifyWhenDone(call_done_tag_.id());
  wiring_.service->RequestExecute(&context_, &stream_, wiring_.queue, wiring_.queue,
                                  accepted_tag_.id());
}

bool StepStream::idle() {
  MutexLock lock(mutex_);
  return accepted_ && epoch_ == 0 && !ending_;
}

void StepStream::OnAccepted(bool ok) {
  if (!ok) {  // the server shuts down; no other tag will come
    wiring_.host->OnOver(*this);
    return;
  }
  accepted_ = true;
  if (!wiring_.host->OnAccepted(*this)) {
    End(ResourceExhausted("too many Execute streams are open"));
    return;
  }
  ReadMore();
}

void StepStream::ReadMore() {
  if (reading_ || input_over_ || num_unanswered_ >= wiring_.max_unanswered) return;
  reading_ = true;
  stream_.Read(&incoming_, read_tag_.id());
}

void StepStream::OnRead(bool ok) {
  reading_ = false;
  {
    MutexLock lock(mutex_);
    if (ending_) ok = false;
  }
  if (!ok) {
    // The router closed its side, or the call is dead. A router that closed its side still gets its
    // answers.
    input_over_ = true;
    if (num_unanswered_ == 0) End(absl::OkStatus());
    TellIfOver();
    return;
  }
  if (epoch_ == 0) {
    HandleClaim();
  } else {
    HandleStep();
  }
}

void StepStream::HandleClaim() {
  if (absl::Status status = wiring_.host->OnClaim(*this, incoming_); !status.ok()) {
    End(status);
    return;
  }
  epoch_ = incoming_.epoch();
  ++num_unanswered_;
  const bool queued = wiring_.executor->BeginLease(epoch_, [this] {
    v1::StepResult answer;
    answer.set_epoch(epoch_);
    answer.set_incarnation(wiring_.host->incarnation());
    Send(std::move(answer));
  });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for the lease of every stream");
  ReadMore();
}

void StepStream::HandleStep() {
  ++num_unanswered_;
  const bool queued = wiring_.executor->Submit(
      epoch_, std::move(incoming_), [this](v1::StepResult result, const StepStats& stats) {
        wiring_.host->RecordStep(result, stats);
        Send(std::move(result));
      });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for every step that may be unanswered");
  ReadMore();
}

void StepStream::Send(v1::StepResult result) {
  result.set_draining(wiring_.host->draining());
  result.set_asked_back(asked_back_);
  MutexLock lock(mutex_);
  if (ending_) return;
  if (writing_) {
    unsent_.push_back(std::move(result));
    return;
  }
  writing_ = true;
  stream_.Write(result, written_tag_.id());
}

void StepStream::OnWritten(bool ok) {
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (ending_) {
      StartFinish();
      return;
    }
    if (ok && !unsent_.empty()) {
      writing_ = true;
      stream_.Write(unsent_.front(), written_tag_.id());
      unsent_.pop_front();
    }
  }
  --num_unanswered_;
  if (!ok) {
    End(absl::CancelledError("the stream broke"));
  } else if (input_over_ && num_unanswered_ == 0) {
    End(absl::OkStatus());
  } else {
    ReadMore();
    if (num_unanswered_ == 0) wiring_.host->OnQuiet(*this);
  }
}

void StepStream::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    final_status_ = status;
    unsent_.clear();
  }
  num_unanswered_ = 0;
  // End the lease before the call. Once a router learns that it is fenced, it may rely on no
  // further step of its lease starting.
  if (epoch_ != 0) EndLease();
  MutexLock lock(mutex_);
  if (!writing_) StartFinish();
}

void StepStream::EndLease() {
  lease_ending_ = true;
  wiring_.host->OnLeaseEnd(epoch_);
  // The executor's queue has this behind every step of the stream. So when it runs, the executor
  // has nothing of the stream left.
  const bool queued = wiring_.executor->EndLease(
      epoch_, [this] { RingNow(lease_ended_, *wiring_.queue, lease_ended_tag_); });
  LOCKSTEP_CHECK(queued, "the executor's queue has room for the end of every lease");
}

void StepStream::StartFinish() { stream_.Finish(ToGrpcStatus(final_status_), finished_tag_.id()); }

void StepStream::OnFinished(bool /*ok*/) {
  finished_ = true;
  TellIfOver();
}

void StepStream::OnCallDone(bool /*ok*/) {
  call_done_ = true;
  End(absl::CancelledError("the call was cancelled"));
  TellIfOver();
}

void StepStream::OnLeaseEnded(bool /*ok*/) {
  lease_ending_ = false;
  TellIfOver();
}

void StepStream::TellIfOver() {
  if (finished_ && call_done_ && !reading_ && !lease_ending_) wiring_.host->OnOver(*this);
}

}  // namespace lockstep::worker
