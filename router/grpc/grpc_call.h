#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/runtime/mutex.h"
#include "router/front/connection/stream_handler.h"
#include "router/grpc/call_status.h"
#include "router/grpc/message_reader.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// One gRPC call on the server's side: messages in, messages out, a status at the end. Input comes
// on the strand of the call's connection, one event after the other. Output may come from any
// thread. The budget counts everything that waits, in both directions.
class GrpcCall : public StreamHandler {
 public:
  struct Transport {
    std::shared_ptr<OutputSignal> signal;
    std::shared_ptr<ByteBudget> memory;
    size_t max_message_bytes = 0;  // of an incoming message
  };
  enum class Sent {
    kDone,     // sent or on its way
    kPending,  // too much waits for the client; OnSent comes when it has left
    kGone,     // the call is over
  };

  // About what an open call takes besides its messages. The budget counts this as well.
  static constexpr size_t kCallBytes = 2 << 10;

  explicit GrpcCall(Transport transport);

  // --- from the connection, on its strand ---
  void OnBody(std::string_view bytes) final;
  void OnBodyEnd() final;
  Output Take() final;
  void OnWritten() final;
  void OnClosed() final;

 protected:
  using Message = MessageReader::Message;

  // --- to the call, on the strand of its connection ---
  virtual void OnMessage(Message message) = 0;
  virtual void OnHalfClose() = 0;  // no message follows
  // What was sent has left. `awaited`: some of it was pending.
  virtual void OnSent(bool /*awaited*/) {}
  // The call is over, and no event follows. Not `finished`: the client left before the call ended.
  virtual void OnOver(bool /*finished*/) {}

  // Counts the call as this tenant's (empty: no keys are required). Call it on the connection's
  // strand, before any message. The call ends if there is no room for it.
  void ChargeTo(std::string_view tenant) { Charge(memory_->AccountOf(tenant)); }
  void ChargeToStrangers() { Charge(&memory_->strangers()); }

  // --- from the call, on any thread ---
  Sent Send(const google::protobuf::MessageLite& message);
  // Nothing follows. What was sent before still goes out. Only the first Finish counts.
  void Finish(const GrpcStatus& status);
  // Send and Finish(OK) in one call.
  void SendLast(std::span<const google::protobuf::MessageLite* const> messages);
  Sent SendAll(std::span<const google::protobuf::MessageLite* const> messages);
  bool over() const;
  // Once the call is over: the code that its client got.
  absl::StatusCode end_code() const;
  // Use this to count what the call holds besides its messages.
  ByteBudget& memory() const { return *memory_; }
  // Bytes that were sent but have not left yet.
  size_t num_waiting_bytes() const;

 private:
  void Charge(ByteBudget::Account* account);
  void Append(const google::protobuf::MessageLite& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false if the bytes are too many. The call then ends.
  bool Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEnd(const GrpcStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(MessageReader::State state);

  const std::shared_ptr<OutputSignal> signal_;
  const std::shared_ptr<ByteBudget> memory_;
  const size_t max_message_bytes_;
  MessageReader reader_;  // used on the strand only

  mutable Mutex mutex_;
  Output pending_ ABSL_GUARDED_BY(mutex_);
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);  // pending_, and taken but unsent bytes
  size_t num_taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_call_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // kCallBytes once the call is charged
  bool head_made_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusCode end_code_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
  bool pending_awaited_ ABSL_GUARDED_BY(mutex_) =
      false;  // OnSent is due when this was taken and has left
  bool taken_awaited_ ABSL_GUARDED_BY(mutex_) = false;  // OnSent is due when this has left
};

// A call that is refused from the start.
class RefusedCall final : public GrpcCall {
 public:
  RefusedCall(Transport transport, const GrpcStatus& status) : GrpcCall(std::move(transport)) {
    Finish(status);
  }

 private:
  void OnMessage(Message) override {}
  void OnHalfClose() override {}
};

}  // namespace lockstep::router
