#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Finds the messages in the bytes of a call: each comes behind five bytes that say how long it is.
// Takes as many as are allowed, each of at most so many bytes. Room for a message grows as its
// bytes come, whatever was announced. Pure.
class RpcMessageReader {
 public:
  static constexpr uint32_t kAll = UINT32_MAX;  // messages

  RpcMessageReader(uint32_t num_allowed, size_t max_message_bytes)
      : num_allowed_(num_allowed), max_message_bytes_(max_message_bytes) {}

  void Allow(uint32_t count, size_t max_message_bytes) {
    num_allowed_ = count == kAll ? kAll : num_allowed_ + count;
    max_message_bytes_ = max_message_bytes;
  }
  // Removes from `data` what is allowed, and appends the messages that are complete.
  absl::Status Take(std::string_view& data, std::vector<std::string>& messages);
  // A message has begun and is not complete.
  bool inside_message() const { return num_prefix_bytes_ > 0; }

 private:
  static constexpr size_t kPrefixBytes = 5;

  absl::Status ReadPrefix();
  void Append(std::string_view part);

  uint32_t num_allowed_;
  size_t max_message_bytes_;
  std::array<unsigned char, kPrefixBytes> prefix_ = {};
  size_t num_prefix_bytes_ = 0;
  size_t num_wanted_bytes_ = 0;  // of the message whose prefix is complete
  std::string message_;          // the part of it that came
};

}  // namespace lockstep
