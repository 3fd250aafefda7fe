#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Finds the messages in the bytes of a call. Each message follows five bytes with its length. Takes
// only the allowed number of messages, each up to a maximum size. Memory for a message grows with
// the bytes that arrive, not with the announced length. Pure.
class RpcMessageReader {
 public:
  static constexpr uint32_t kAll = UINT32_MAX;  // messages

  RpcMessageReader(uint32_t num_allowed, size_t max_message_bytes)
      : num_allowed_(num_allowed), max_message_bytes_(max_message_bytes) {}

  void Allow(uint32_t count, size_t max_message_bytes) {
    num_allowed_ = count == kAll ? kAll : num_allowed_ + count;
    max_message_bytes_ = max_message_bytes;
  }
  // Removes the allowed bytes from `data` and appends the complete messages.
  absl::Status Take(std::string_view& data, std::vector<std::string>& messages);
  // True if a message has begun and is not complete.
  bool inside_message() const { return num_prefix_bytes_ > 0; }

 private:
  static constexpr size_t kPrefixBytes = 5;

  absl::Status ReadPrefix();
  void Append(std::string_view part);

  uint32_t num_allowed_;
  size_t max_message_bytes_;
  std::array<unsigned char, kPrefixBytes> prefix_ = {};
  size_t num_prefix_bytes_ = 0;
  size_t num_wanted_bytes_ = 0;  // of the message with a complete prefix
  std::string message_;          // the part of it that arrived
};

}  // namespace lockstep
