#pragma once

#include <atomic>

namespace lockstep {

// Closed while something is in progress. A caller that finds it closed leaves a wish, and the
// caller that opens it sees the wish. So no caller waits, and no caller is forgotten. Safe to use
// from any thread.
class Gate {
 public:
  enum class State { kOpen, kClosed, kClosedWithWish };

  explicit Gate(State state = State::kOpen) : state_(state) {}

  // Call only while the gate is open, and from one thread at a time.
  void Close() { state_.store(State::kClosed); }
  // True: the gate is open. False: a wish is left, and Open will return true.
  bool PassOrWish() {
    State closed = State::kClosed;
    if (state_.compare_exchange_strong(closed, State::kClosedWithWish)) return false;
    return closed == State::kOpen;
  }
  // Opens the gate. Returns true if a wish was left.
  bool Open() { return state_.exchange(State::kOpen) == State::kClosedWithWish; }

  bool is_open() const { return state_.load() == State::kOpen; }

 private:
  std::atomic<State> state_;
};

}  // namespace lockstep
