#pragma once

#include <absl/status/status.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <deque>

#include "common/grpc/completion_tag.h"
#include "common/runtime/mutex.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "worker/steps/executor_thread.h"

namespace lockstep::worker {

// One Execute call: a claim, then steps in and results out. Lives on the service thread, where all
// its completions arrive. The executor thread writes results. Reads ahead at most max_unanswered
// messages, so neither its input nor its output grows without bound. Deletes nothing: the host
// deletes the stream in OnOver.
class StepStream {
 public:
  // The service as a stream sees it. Called on the service thread unless a comment says otherwise.
  class Host {
   public:
    // A call has come in: listen for the next one. False: too many streams, end this one.
    virtual bool OnAccepted(StepStream& stream) = 0;
    // Grants the lease and ends the stream of the lease before it, or returns an error.
    virtual absl::Status OnClaim(StepStream& stream, const v1::StepRequest& message) = 0;
    // The stream of a granted lease ends; called before the executor drops the slots.
    virtual void OnLeaseEnd(uint64_t epoch) = 0;
    // Every message that was read has been answered.
    virtual void OnQuiet(StepStream& stream) = 0;
    // Nothing of the stream is outstanding any more: delete it.
    virtual void OnOver(StepStream& stream) = 0;
    // The methods below are also called on the executor thread.
    virtual void RecordStep(const v1::StepResult& result, const StepStats& stats) = 0;
    virtual uint64_t incarnation() const = 0;
    virtual bool draining() const = 0;

   protected:
    ~Host() = default;
  };

  struct Wiring {
    Host* host;
    v1::Worker::AsyncService* service;
    grpc::ServerCompletionQueue* queue;
    ExecutorThread* executor;
    uint32_t max_unanswered;  // messages read whose answers are not yet sent
  };

  // Listens for a call.
  explicit StepStream(const Wiring& wiring);
  StepStream(const StepStream&) = delete;
  StepStream& operator=(const StepStream&) = delete;

  // Results say from now on that the lease is asked back.
  void AskBack() { asked_back_ = true; }
  bool asked_back() const { return asked_back_; }
  // Ends the call with `status`. Results that are not sent yet are dropped. Later calls do nothing.
  void End(const absl::Status& status);

  uint64_t epoch() const { return epoch_; }  // 0: nothing claimed yet
  bool accepted() const { return accepted_; }
  bool idle();  // accepted, has claimed nothing, and has not been ended
  uint32_t num_unanswered() const { return num_unanswered_; }

 private:
  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnCallDone(bool ok);
  void OnLeaseEnded(bool ok);

  void HandleClaim();
  void HandleStep();
  void ReadMore();
  void Send(v1::StepResult result);  // executor thread
  void EndLease();
  void StartFinish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellIfOver();

  const Wiring wiring_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::StepResult, v1::StepRequest> stream_;
  grpc::Alarm lease_ended_;

  // Service thread only.
  v1::StepRequest incoming_;
  uint64_t epoch_ = 0;
  uint32_t num_unanswered_ = 0;
  bool accepted_ = false;
  bool reading_ = false;
  bool input_over_ = false;
  bool lease_ending_ = false;
  bool finished_ = false;
  bool call_done_ = false;

  std::atomic<bool> asked_back_ = false;
  Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status final_status_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::StepResult> unsent_ ABSL_GUARDED_BY(mutex_);  // at most max_unanswered

  MethodTag<StepStream> accepted_tag_{this, &StepStream::OnAccepted};
  MethodTag<StepStream> read_tag_{this, &StepStream::OnRead};
  MethodTag<StepStream> written_tag_{this, &StepStream::OnWritten};
  MethodTag<StepStream> finished_tag_{this, &StepStream::OnFinished};
  MethodTag<StepStream> call_done_tag_{this, &StepStream::OnCallDone};
  MethodTag<StepStream> lease_ended_tag_{this, &StepStream::OnLeaseEnded};
};

}  // namespace lockstep::worker
