#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/rpc/rpc_connection.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/executor_thread.h"

namespace lockstep::worker {

// One Execute call: a claim, then steps in and results out. Lives on the service thread, which also
// gets all events of its call. The executor thread writes results. Takes at most max_unanswered
// messages before their answers, so its input and output are bounded. Deletes nothing: the host
// deletes the stream in OnOver.
class StepStream {
 public:
  // The service as a stream sees it. Called on the service thread unless a comment says otherwise.
  class Host {
   public:
    // Grants the lease and ends the stream of the previous lease, or returns an error.
    virtual absl::Status OnClaim(StepStream& stream, const v1::StepRequest& message) = 0;
    // The stream of a granted lease ends; called before the executor drops the slots.
    virtual void OnLeaseEnd(uint64_t epoch) = 0;
    // Every message that was read has been answered.
    virtual void OnQuiet(StepStream& stream) = 0;
    // The stream has no work left: delete it.
    virtual void OnOver(StepStream& stream) = 0;
    // The methods below are also called on the executor thread.
    virtual void RecordStep(const v1::StepResult& result, const StepStats& stats) = 0;
    virtual uint64_t incarnation() const = 0;
    virtual bool draining() const = 0;
    // The service thread runs the task soon.
    virtual void Post(Poller::Task task) = 0;

   protected:
    ~Host() = default;
  };

  struct Wiring {
    Host* host;
    ExecutorThread* executor;
    uint32_t max_unanswered;   // messages read and not yet answered
    size_t max_message_bytes;  // of a step
  };

  // For a new call.
  StepStream(const Wiring& wiring, std::shared_ptr<RpcConnection> connection,
             RpcConnection::CallId call)
      : wiring_(wiring), connection_(std::move(connection)), call_(call) {}
  StepStream(const StepStream&) = delete;
  StepStream& operator=(const StepStream&) = delete;

  // The events of the call.
  void OnMessage(const std::string& bytes);
  void OnHalfClose();
  void OnCallEnd();

  // From now on, results ask for the lease back.
  void AskBack() { asked_back_ = true; }
  bool asked_back() const { return asked_back_; }
  // Ends the call with `status`. Later calls do nothing.
  void End(const absl::Status& status);

  // Cancels a call if the client does not take its end. Needs abandonable().
  void Abandon() {
    abandoned_ = true;
    connection_->Cancel(call_);
  }
  bool abandonable() const { return ending_ && !lease_ending_ && !call_over_ && !abandoned_; }

  const RpcConnection& connection() const { return *connection_; }
  RpcConnection::CallId call() const { return call_; }
  uint64_t epoch() const { return epoch_; }              // 0: nothing claimed yet
  bool idle() const { return epoch_ == 0 && !ending_; }  // no claim, no end yet
  uint32_t num_unanswered() const { return num_unanswered_; }

 private:
  void HandleClaim(const v1::StepRequest& message);
  void HandleStep(v1::StepRequest message);
  void Send(v1::StepResult result);  // executor thread
  void OnAnswered();                 // service thread
  void EndLease();
  void OnLeaseEnded();
  void TellIfOver();

  const Wiring wiring_;
  const std::shared_ptr<RpcConnection> connection_;
  const RpcConnection::CallId call_;

  // Service thread only.
  uint64_t epoch_ = 0;
  bool lease_ending_ = false;
  bool call_over_ = false;
  bool abandoned_ = false;

  std::atomic<bool> ending_ = false;
  std::atomic<bool> input_over_ = false;
  std::atomic<bool> asked_back_ = false;
  std::atomic<uint32_t> num_unanswered_ = 0;
};

}  // namespace lockstep::worker
