#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "router/grpc/grpc_wire.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// Reads messages from the body of a call. A message is counted before it grows, and it grows with
// the bytes that arrived. Its announced length only says where it ends.
class MessageReader {
 public:
  enum class State {
    kMore,        // the bytes are used up
    kMessage,     // a message is complete: call Take
    kCompressed,  // or the flag is unknown
    kTooLarge,
    kNoRoom,  // the budget has no room
  };
  struct Message {
    std::string bytes;
    ByteBudget::Share held;
  };

  // The budget must outlive the object and its messages.
  MessageReader(size_t max_message_bytes, ByteBudget& memory)
      : max_message_bytes_(max_message_bytes), memory_(memory), held_(memory) {}

  // Takes bytes from the front, at most to the end of a message. After an error, stop reading.
  State Read(std::string_view& bytes);
  Message Take() {
    num_prefix_bytes_ = 0;
    Message taken = {std::exchange(message_, std::string()), std::move(held_)};
    held_ = ByteBudget::Share(&memory_, taken.held.account());
    return taken;
  }
  // Counts messages in this account from now on.
  void ChargeTo(ByteBudget::Account* account) { held_.ChargeTo(account); }
  // True if the body may end here.
  bool between_messages() const { return num_prefix_bytes_ == 0; }
  // The length that the last message announced.
  size_t announced_bytes() const { return num_announced_bytes_; }

 private:
  bool MakeRoom(size_t needed);

  const size_t max_message_bytes_;
  ByteBudget& memory_;
  char prefix_[kMessagePrefixBytes] = {};
  size_t num_prefix_bytes_ = 0;
  size_t num_announced_bytes_ = 0;
  std::string message_;
  ByteBudget::Share held_;
};

}  // namespace lockstep::router
