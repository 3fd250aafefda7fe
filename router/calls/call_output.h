#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "router/calls/part_writer.h"

namespace lockstep::router {

// The most text that waits while it is open whether it is a call.
inline constexpr size_t kMaxHeldBytes = size_t{256} << 10;
inline constexpr size_t kMaxNameBytes = 256;

// Where a reader of calls writes, and the text that it has read and not yet written. If a call
// turns out to be none, this text becomes content.
class CallOutput {
 public:
  explicit CallOutput(PartWriter& writer) : writer_(writer) {}

  void Begin(std::string name) {
    writer_.Event(OutputPart::Kind::kCallBegin, std::move(name));
    is_open_ = true;
    held_.clear();
  }
  void Arguments(std::string_view text) {
    if (text.empty()) return;
    writer_.Text(OutputPart::Kind::kCallArguments, text);
    held_.clear();
  }
  void End() {
    writer_.Event(OutputPart::Kind::kCallEnd);
    is_open_ = false;
    ++num_whole_;
    held_.clear();
  }
  void Break() {
    writer_.Event(OutputPart::Kind::kCallBroken);
    is_open_ = false;
    ++num_broken_;
  }
  bool is_open() const { return is_open_; }
  uint32_t num_whole() const { return num_whole_; }
  uint32_t num_broken() const { return num_broken_; }

  void Hold(std::string_view text) { held_ += text; }
  void Hold(char c) { held_.push_back(c); }
  // The last byte was not read after all.
  void Unhold() { held_.pop_back(); }
  // What was read belongs to the syntax of calls, and is no content.
  void Drop() { held_.clear(); }
  size_t num_held() const { return held_.size(); }
  std::string TakeHeld() { return std::exchange(held_, {}); }

 private:
  PartWriter& writer_;
  bool is_open_ = false;  // between Begin and End
  uint32_t num_whole_ = 0;
  uint32_t num_broken_ = 0;
  std::string held_;
};

}  // namespace lockstep::router
