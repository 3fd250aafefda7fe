#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// A fuzzer's input as messages in a row: a byte of options, the length in two bytes (the lower one
// first), and so many bytes, or what is left of them.
namespace lockstep::testing {

struct Frame {
  uint8_t options = 0;
  std::span<const uint8_t> bytes;
};

class FramedInput {
 public:
  FramedInput(const uint8_t* data, size_t size) : rest_(data, size) {}

  std::optional<Frame> Next() {
    constexpr size_t kHeaderBytes = 3;
    if (rest_.size() < kHeaderBytes) return std::nullopt;
    const size_t announced = rest_[1] | rest_[2] << 8;
    const uint8_t options = rest_[0];
    rest_ = rest_.subspan(kHeaderBytes);
    const size_t length = announced < rest_.size() ? announced : rest_.size();
    const Frame frame{options, rest_.first(length)};
    rest_ = rest_.subspan(length);
    return frame;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace lockstep::testing
