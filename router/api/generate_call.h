#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/api_context.h"
#include "router/api/response_builder.h"

namespace lockstep::router {

// One Generate call, from admission to its last byte. gRPC's callbacks only set flags and schedule;
// all work is done by RunStrand, one run at a time: on the encode pool, checking and encoding the
// prompt; then on the text pool, whenever no write is in progress, turning what the outbox holds
// into messages. So a client that does not read stops nothing but its own stream, which
// EndIfStalledSince cuts off in the end, and a long prompt does not hold up what others stream.
class GenerateCall final : public grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>,
                           public StrandPool::Strand,
                           public OpenCall,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  // The object keeps itself alive until gRPC is done with it. `context` outlives the call.
  static grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>* Start(
      ApiContext& context, grpc::CallbackServerContext* server_context,
      const lockstep::v1::GenerateRequest* request);

  GenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
               const lockstep::v1::GenerateRequest* request);

  void Abort() override;
  void EndIfStalledSince(absl::Time limit) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void RunStrand() override;

 private:
  // OK once the request is with the engine.
  absl::Status Prepare();
  absl::Time Deadline(absl::Time now) const;
  // Takes what the engine has to say, if anything.
  void ConsumeOutput();
  void CancelEngine(CancelCause cause);
  void FinishCall(const absl::Status& status);
  void RecordEnd(const absl::Status& status);
  void Schedule();
  bool writing() const { return write_began_unix_ns_.load() != kNotWriting; }

  ApiContext& context_;
  grpc::CallbackServerContext* const server_context_;
  const lockstep::v1::GenerateRequest* const message_;
  std::shared_ptr<GenerateCall> self_;  // until OnDone
  std::shared_ptr<Admission::Ticket> ticket_;

  // Set from any thread.
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> aborted_ = false;
  static constexpr int64_t kNotWriting = std::numeric_limits<int64_t>::min();
  std::atomic<int64_t> write_began_unix_ns_ = kNotWriting;
  std::atomic<int64_t> stalled_write_unix_ns_ = kNotWriting;  // the beginning of one that stalled
  std::atomic<bool> prepared_ = false;  // set by the strand: the prompt was dealt with

  // The strand's alone.
  bool finished_ = false;  // gRPC was given the status
  bool end_recorded_ = false;
  bool engine_told_ = false;                // to cancel
  std::string registered_id_;               // empty: not registered
  std::shared_ptr<const Request> request_;  // null until submitted
  std::shared_ptr<Outbox> outbox_;
  std::optional<ResponseBuilder> builder_;
  std::deque<lockstep::v1::GenerateResponse> messages_;
  lockstep::v1::GenerateResponse current_;  // being written
};

}  // namespace lockstep::router
