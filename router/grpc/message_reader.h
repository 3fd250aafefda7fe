#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "router/grpc/grpc_wire.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// Reads messages from the body of a call. A message is counted before it grows, and grows with the
// bytes that came. Its announced length says only where it ends.
class MessageReader {
 public:
  enum class State {
    kMore,        // the bytes are used up
    kMessage,     // one is whole: Take it
    kCompressed,  // or a flag that this reader does not know
    kTooLarge,
    kNoRoom,  // in the budget
  };
  struct Message {
    std::string bytes;
    ByteBudget::Share held;
  };

  // The budget outlives the object and the messages.
  MessageReader(size_t max_message_bytes, ByteBudget& memory)
      : max_message_bytes_(max_message_bytes), memory_(memory), held_(memory) {}

  // Takes bytes from the front, up to the end of a message. Nothing can be read after an error.
  State Read(std::string_view& bytes);
  Message Take() {
    num_prefix_bytes_ = 0;
    Message taken = {std::exchange(message_, std::string()), std::move(held_)};
    held_ = ByteBudget::Share(&memory_, taken.held.account());
    return taken;
  }
  // Counts messages as this owner's from now on.
  void ChargeTo(ByteBudget::Account* account) { held_.ChargeTo(account); }
  // The body may end here.
  bool between_messages() const { return num_prefix_bytes_ == 0; }
  // That the last message announced.
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
