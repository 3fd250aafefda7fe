#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "common/strands/gate.h"
#include "lockstep/v1/generation.pb.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/calls/response_builder.h"

namespace lockstep::router {

// One request, from admission to its last message, whatever it came over.
//
// RunStrand does all the work, one run at a time. The transport's callbacks only say what happened,
// and schedule it. First it checks and encodes the prompt, on the encode pool, or within Start if
// that is short. Then it turns what the outbox holds into messages, on the transport's own threads,
// whenever no write is in progress. So a client that does not read stops only its own stream, which
// its connection cuts off in the end, and a long prompt does not hold up the streams of others.
class GenerateCall : public Strand,
                     public OpenCall,
                     public std::enable_shared_from_this<GenerateCall> {
 public:
  struct Origin {
    // Let go of once the prompt is dealt with, or the call is over.
    std::shared_ptr<const lockstep::v1::GenerateRequest> request;
    Instant deadline;                                // of the client
    std::shared_ptr<const Tenant> tenant = nullptr;  // null: nobody in particular
    std::shared_ptr<StrandRunner> home;  // runs the strand once the prompt is dealt with
    OutputMeter output_meter = nullptr;  // of tokens that are not made into messages yet
  };

  // Of the prompt, before anything is tokenized. Until Start.
  uint64_t estimated_prompt_tokens() const;
  // A place for the request, before any work on it; false: End was called with the reason. `pass`
  // is of the tenant, if it was asked already.
  bool Admit(std::unique_ptr<Gatekeeper::Pass> pass = nullptr);
  // After Admit: the work begins. A short prompt of token ids is dealt with before this returns.
  void Start();

  void Abort() override;
  void RunStrand() override;
  std::string_view owner() const override { return NameOf(origin_.tenant.get()); }
  size_t num_work_bytes() const override { return num_work_bytes_; }

  // --- from the transport, on any thread ---
  // The write is over; not ok: the client is gone, as with OnClientGone.
  void OnWriteDone(bool ok);
  void OnClientGone();

 protected:
  // `context` outlives the object.
  GenerateCall(ApiContext& context, Origin origin);

  ApiContext& context() { return context_; }

 private:
  enum class Stage {
    kReceived,  // the prompt was not looked at
    kRunning,   // the prompt was dealt with
    kEnding,    // the end is recorded, and the last messages are on their way
    kFinished,  // the transport was given the status
  };
  // Who wants the call to end early. The later one in this order counts.
  enum class Stop { kNone, kAborted, kClientGone };

  // --- to the transport; none of them may block ---
  // One write at a time, until OnWriteDone, which may come before this returns. The transport owns
  // the messages, so that nothing keeps them beside what it makes of them.
  virtual void StartWrite(std::vector<lockstep::v1::GenerateResponse> messages) = 0;
  // StartWrite and End(OK) in one, without OnWriteDone.
  virtual void StartLastWrite(std::vector<lockstep::v1::GenerateResponse> messages) = 0;
  // Nothing follows; no write is in progress.
  virtual void End(const absl::Status& status) = 0;

  // True when nothing is left to do but to wait: the call is over, or about to be.
  bool Leave();
  // OK once the request is with the engine. The message it came as is not needed after it.
  absl::Status Prepare();
  // Takes what the engine has to say, if anything.
  void ConsumeOutput();
  void WriteMessages();
  // The place in the queue is free at once, though the strand may wait for its turn.
  void RequestStop(Stop stop);
  void CancelEngine(CancelCause cause);
  void FinishCall(const absl::Status& status);
  void RecordEnd(const absl::Status& status);
  void Schedule();
  bool ended_well() const { return builder_->end().has_value() && builder_->end()->ok(); }

  ApiContext& context_;
  Origin origin_;
  const size_t num_work_bytes_;
  std::shared_ptr<Admission::Ticket> ticket_;
  std::unique_ptr<Gatekeeper::Pass> pass_;  // null: nobody's, or the call is over

  // Set from any thread.
  std::atomic<Stop> stop_ = Stop::kNone;
  Gate writes_;                                  // closed while a write is in progress
  Gate start_ = Gate(Gate::State::kClosed);      // until Start has done its part alone
  std::atomic<Stage> stage_ = Stage::kReceived;  // only the strand changes it

  // The strand's alone.
  bool engine_told_ = false;                // to cancel
  std::string registered_id_;               // scoped; empty: not registered
  std::shared_ptr<const Request> request_;  // null until submitted
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<RequestBoard::Entry> shown_;  // null until submitted
  std::optional<ResponseBuilder> builder_;
  std::vector<lockstep::v1::GenerateResponse> messages_;
};

}  // namespace lockstep::router
