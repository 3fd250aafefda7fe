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

// One gRPC call on the server's side: messages in, messages out, a status at the end. What comes in
// is told on the strand of the call's connection, one after the other; what goes out comes from any
// thread. Everything that waits, either way, is counted in the budget.
class GrpcCall : public StreamHandler {
 public:
  struct Transport {
    std::shared_ptr<OutputSignal> signal;
    std::shared_ptr<ByteBudget> memory;
    size_t max_message_bytes = 0;  // of one that comes in
  };
  enum class Sent {
    kDone,     // or on its way
    kPending,  // so much waits for the client that OnSent tells when it has left
    kGone,     // the call is over
  };

  // About what an open call takes besides its messages, which counts as well.
  static constexpr size_t kCallBytes = 2 << 10;

  explicit GrpcCall(Transport transport);

  // --- of the connection, on its strand ---
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
  // What was sent has left; `awaited`: some of it was pending.
  virtual void OnSent(bool /*awaited*/) {}
  // The end, after which nothing is told. Not `finished`: the client left before the call was.
  virtual void OnOver(bool /*finished*/) {}

  // Counts the call as this tenant's; empty when there are no keys. On the strand of its
  // connection, before any message. The call ends when there is no room for it.
  void ChargeTo(std::string_view tenant) { Charge(memory_->AccountOf(tenant)); }
  void ChargeToStrangers() { Charge(&memory_->strangers()); }

  // --- from the call, on any thread ---
  Sent Send(const google::protobuf::MessageLite& message);
  // Nothing follows; what is sent before still is. Only the first of them counts.
  void Finish(const GrpcStatus& status);
  // Send and Finish as OK, in one.
  void SendLast(std::span<const google::protobuf::MessageLite* const> messages);
  Sent SendAll(std::span<const google::protobuf::MessageLite* const> messages);
  bool over() const;
  // Counts what the call holds besides its messages.
  ByteBudget& memory() const { return *memory_; }
  // Of what was sent, and has not left.
  size_t num_waiting_bytes() const;

 private:
  void Charge(ByteBudget::Account* account);
  void Append(const google::protobuf::MessageLite& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: they would be too many, and the call ends.
  bool Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEnd(const GrpcStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(MessageReader::State state);

  const std::shared_ptr<OutputSignal> signal_;
  const std::shared_ptr<ByteBudget> memory_;
  const size_t max_message_bytes_;
  MessageReader reader_;  // the strand's

  mutable Mutex mutex_;
  Output pending_ ABSL_GUARDED_BY(mutex_);
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);  // what waits, and what was taken
  size_t num_taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_call_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // kCallBytes once somebody is charged
  bool head_made_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool pending_awaited_ ABSL_GUARDED_BY(mutex_) =
      false;                                            // OnSent is due once it was taken and left
  bool taken_awaited_ ABSL_GUARDED_BY(mutex_) = false;  // once it has left
};

// A call that has a status from the beginning.
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
