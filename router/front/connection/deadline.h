#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::router {

// A deadline that moves often and is met seldom: to move it costs a look at the clock, as the timer
// is left alone and looks again when it fires. So a timer that fires after its deadline was moved
// or cleared changes nothing. Lives on its executor, which is a strand.
class Deadline {
 public:
  Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_passed)
      : timer_(executor), on_passed_(std::move(on_passed)) {}

  // `owner` owns this object.
  void Set(std::chrono::nanoseconds timeout, const std::weak_ptr<void>& owner);
  void Clear() { at_.reset(); }
  bool is_set() const { return at_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;

  void Wait(const std::weak_ptr<void>& owner);
  void OnTimer(uint64_t wait, const std::weak_ptr<void>& owner);

  boost::asio::steady_timer timer_;
  const std::function<void()> on_passed_;
  std::optional<Clock::time_point> at_;
  bool waiting_ = false;
  uint64_t wait_ = 0;  // counts waits: only the latest one may speak
};

}  // namespace lockstep::router
