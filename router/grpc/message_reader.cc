#include "router/grpc/message_reader.h"

#include <algorithm>

namespace lockstep::router {
namespace {

constexpr size_t kFirstBytes = 512;

}  // namespace

MessageReader::State MessageReader::Read(std::string_view& bytes) {
  while (num_prefix_bytes_ < kMessagePrefixBytes) {
    if (bytes.empty()) return State::kMore;
    prefix_[num_prefix_bytes_++] = bytes.front();
    bytes.remove_prefix(1);
  }
  if (prefix_[0] != 0) return State::kCompressed;
  num_announced_bytes_ = ReadMessageSize(prefix_);
  if (num_announced_bytes_ > max_message_bytes_) return State::kTooLarge;
  const size_t num_bytes = std::min(bytes.size(), num_announced_bytes_ - message_.size());
  if (!MakeRoom(message_.size() + num_bytes)) return State::kNoRoom;
  message_.append(bytes.substr(0, num_bytes));
  bytes.remove_prefix(num_bytes);
  return message_.size() == num_announced_bytes_ ? State::kMessage : State::kMore;
}

bool MessageReader::MakeRoom(size_t needed) {
  if (needed <= held_.bytes()) return true;
  const size_t room =
      std::min(num_announced_bytes_, std::max({needed, 2 * held_.bytes(), kFirstBytes}));
  if (!held_.Resize(room)) return false;
  message_.reserve(room);
  return true;
}

}  // namespace lockstep::router
