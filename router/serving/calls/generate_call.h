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
#include "common/runtime/cancel_flag.h"
#include "lockstep/v1/generation.pb.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/calls/response_builder.h"
#include "router/strands/gate.h"

namespace lockstep::router {

// One request, from admission to its last message, over any transport.
//
// RunStrand does all the work, one run at a time. The transport's callbacks only record what
// happened and schedule the strand. First it checks and encodes the prompt: on the encode pool, or
// within Start if that is short. Then, whenever no write is in progress, it turns the content of
// the outbox into messages on the transport's own threads. So a client that does not read stops
// only its own stream, which its connection cuts off in the end. And a long prompt does not delay
// other streams.
class GenerateCall : public Strand,
                     public OpenCall,
                     public std::enable_shared_from_this<GenerateCall> {
 public:
  struct Origin {
    // Released when the prompt is encoded or the call is over.
    std::shared_ptr<const lockstep::v1::GenerateRequest> request;
    Instant deadline;                                 // the client's deadline
    std::shared_ptr<const Tenant> tenant = nullptr;   // null: no tenant
    std::shared_ptr<StrandRunner> connection_runner;  // runs the strand once the prompt is encoded
    OutputMeter output_meter = nullptr;  // counts output that is not made into messages yet
    std::shared_ptr<RequestTrace> trace = nullptr;  // null: the request is not recorded
    bool follows_in_batch = false;                  // other calls of the same batch come first
  };

  // Estimate for the prompt before it is tokenized. Call only before Start.
  uint64_t estimated_prompt_tokens() const;
  // Takes a place for the request before any work on it. False: refused, and End was called with
  // the reason. `permit`: the tenant's, if it was already taken.
  bool Admit(std::unique_ptr<Gatekeeper::Permit> permit = nullptr);
  // Begins the work. Call after Admit. A short prompt of token ids is encoded before this returns.
  void Start();

  void Abort() override;
  void RunStrand() override;
  std::string_view owner() const override { return NameOf(origin_.tenant.get()); }
  size_t num_work_bytes() const override { return num_work_bytes_; }

  // --- from the transport, on any thread ---
  // The write is over. Not `ok`: the client is gone.
  void OnWriteDone(bool ok);

 protected:
  // `context` must outlive the object.
  GenerateCall(ApiContext& context, Origin origin);

  ApiContext& context() { return context_; }

 private:
  enum class Stage {
    kReceived,  // the prompt was not looked at yet
    kRunning,   // the prompt was encoded
    kEnding,    // the end is recorded, and the last messages are on their way
    kFinished,  // the transport has the status
  };
  // Why the call must end early. If there are several reasons, the last one in this order counts.
  enum class Stop { kNone, kAborted, kClientGone };

  // --- to the transport; these must not block ---
  // One write at a time. It lasts until OnWriteDone, which may come before this returns. The
  // transport owns the messages and may free them once it has converted them.
  virtual void StartWrite(std::vector<lockstep::v1::GenerateResponse> messages) = 0;
  // StartWrite and End(OK) in one call. OnWriteDone does not follow. Returns how the call ended for
  // the client: there may be no memory for the messages.
  virtual absl::StatusCode StartLastWrite(std::vector<lockstep::v1::GenerateResponse> messages) = 0;
  // Nothing follows. No write is in progress.
  virtual void End(const absl::Status& status) = 0;

  // True if there is nothing to do but wait: the call is over or about to be.
  bool Leave();
  // OK if the request is with the engine. The client's message is not needed after this.
  absl::Status Prepare();
  // Waits for the engine, if the constraint is not known yet. nullopt: the message has none.
  absl::StatusOr<std::optional<RequestConstraint>> CheckedConstraint(
      const lockstep::v1::SamplingParams& sampling);
  // The same for calls that the output must have; nullopt: it need not call.
  absl::StatusOr<std::optional<RequestConstraint>> CheckedCalls(
      const lockstep::v1::ChatPrompt& chat, const OutputReading* reading);
  // Takes what is in the outbox, if anything.
  void ConsumeOutput();
  void WriteMessages();
  // Frees the place in the queue at once, although the strand may have to wait for its turn.
  void RequestStop(Stop stop);
  void CancelEngine(CancelCause cause);
  void FinishCall(const absl::Status& status);
  void RecordEnd(const absl::Status& status);
  // Only the first call counts.
  void EndTrace(absl::StatusCode code);
  void Schedule();
  bool ended_well() const { return builder_->end().has_value() && builder_->end()->ok(); }

  ApiContext& context_;
  Origin origin_;
  const size_t num_work_bytes_;
  std::shared_ptr<Admission::Ticket> ticket_;
  std::unique_ptr<Gatekeeper::Permit> permit_;  // null: no tenant, or the call is over

  // Set from any thread.
  std::atomic<Stop> stop_ = Stop::kNone;
  CancelFlag encoding_;                          // stops encoding once the client is gone
  Gate writes_;                                  // closed while a write is in progress
  Gate start_ = Gate(Gate::State::kClosed);      // closed until Start has done its part
  std::atomic<Stage> stage_ = Stage::kReceived;  // only the strand changes it

  // Only the strand uses these.
  bool engine_told_ = false;                // true: the engine was told to cancel
  std::string registered_id_;               // scoped; empty: not registered
  std::shared_ptr<const Request> request_;  // null until submitted
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<RequestBoard::Entry> shown_;  // null until submitted
  std::optional<ResponseBuilder> builder_;
  std::vector<lockstep::v1::GenerateResponse> messages_;
};

}  // namespace lockstep::router
