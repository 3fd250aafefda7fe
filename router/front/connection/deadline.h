#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::router {

// A deadline that moves often and rarely passes. Moving it only reads the clock: the timer stays as
// it is, and when it fires, it checks the deadline and waits again if needed. Lives on its
// executor, which must be a strand.
class Deadline {
 public:
  Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_passed)
      : timer_(executor), on_passed_(std::move(on_passed)) {}

  // `owner` must own this object.
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
  uint64_t wait_ = 0;  // number of the latest wait; earlier ones do nothing
};

}  // namespace lockstep::router
