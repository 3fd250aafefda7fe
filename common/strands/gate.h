#pragma once

#include <atomic>

namespace lockstep {

// Closed while something is under way. Who comes meanwhile leaves a wish, and who opens the gate
// learns of it; so nobody waits, and nobody is forgotten. Any thread.
class Gate {
 public:
  enum class State { kOpen, kClosed, kClosedWithWish };

  explicit Gate(State state = State::kOpen) : state_(state) {}

  // One at a time: the gate is open.
  void Close() { state_.store(State::kClosed); }
  // True: the gate is open. False: Open will return true.
  bool PassOrWish() {
    State closed = State::kClosed;
    if (state_.compare_exchange_strong(closed, State::kClosedWithWish)) return false;
    return closed == State::kOpen;
  }
  // Whether anybody left a wish.
  bool Open() { return state_.exchange(State::kOpen) == State::kClosedWithWish; }

  bool is_open() const { return state_.load() == State::kOpen; }

 private:
  std::atomic<State> state_;
};

}  // namespace lockstep
