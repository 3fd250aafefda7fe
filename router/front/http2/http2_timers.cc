#include "router/front/http2/http2_timers.h"

#include <absl/time/time.h>

#include <algorithm>

namespace lockstep::router {
namespace {

constexpr std::chrono::milliseconds kMinStallCheck(10);
constexpr std::chrono::seconds kMaxStallCheck(5);

std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  // Durations above a year, also "never", become a year, so that they can be added to a time point.
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

}  // namespace

Http2Timers::Http2Timers(const ConnectionLimits& limits, const Http2Session& session, Time now)
    : limits_(limits), session_(session), began_(now), received_at_(now), idle_since_(now) {}

void Http2Timers::OnReceived(Time now) {
  received_at_ = now;
  pinged_at_ = Time();
  if (!session_.in_header_block()) {
    header_since_ = Time();
  } else if (header_since_ == Time() || session_.num_header_blocks() != num_header_blocks_) {
    header_since_ = now;
  }
  num_header_blocks_ = session_.num_header_blocks();
}

void Http2Timers::OnWriteWaits(size_t num_untaken_bytes, Time now) {
  writing_ = true;
  wrote_at_ = now;
  num_untaken_bytes_ = num_untaken_bytes;
}

void Http2Timers::Update(Time now) {
  if (session_.num_streams() > 0) idle_since_ = now;
  if (!session_.any_waiting()) {
    stall_check_at_ = Time();
  } else if (stall_check_at_ == Time()) {
    stall_check_at_ = now + StallCheckInterval();
  }
}

Http2Timers::Time Http2Timers::NextDue(Time now) const {
  Time due = Time::max();
  const auto at = [&due](Time time) { due = std::min(due, time); };
  if (header_since_ != Time()) at(header_since_ + Nanoseconds(limits_.header_timeout));
  if (session_.any_waiting()) at(std::max(stall_check_at_, now));
  if (writing_) {
    at(wrote_at_ + Nanoseconds(limits_.write_timeout));
    return due;
  }
  if (session_.num_streams() == 0) {
    at(session_.any_request_yet() ? idle_since_ + Nanoseconds(limits_.idle_timeout)
                                  : began_ + Nanoseconds(limits_.header_timeout));
  }
  at(pinged_at_ == Time() ? received_at_ + Nanoseconds(limits_.keepalive_time)
                          : pinged_at_ + Nanoseconds(limits_.keepalive_timeout));
  return due;
}

bool Http2Timers::IsOverdue(size_t num_untaken_bytes, Time now) {
  const auto header_timeout = Nanoseconds(limits_.header_timeout);
  if (header_since_ != Time() && now - header_since_ >= header_timeout) return true;
  if (!writing_) {
    return pinged_at_ != Time() && now - pinged_at_ >= Nanoseconds(limits_.keepalive_timeout);
  }
  if (now - wrote_at_ < Nanoseconds(limits_.write_timeout)) return false;
  // The client may have read from the kernel's buffer although no write completed.
  if (num_untaken_bytes >= num_untaken_bytes_) return true;
  num_untaken_bytes_ = num_untaken_bytes;
  wrote_at_ = now;
  return false;
}

bool Http2Timers::IsIdleForTooLong(Time now) const {
  if (writing_ || session_.num_streams() > 0) return false;
  return session_.any_request_yet() ? now - idle_since_ >= Nanoseconds(limits_.idle_timeout)
                                    : now - began_ >= Nanoseconds(limits_.header_timeout);
}

bool Http2Timers::TakeStallCheck(Time now) {
  if (!session_.any_waiting() || stall_check_at_ > now) return false;
  stall_check_at_ = now + StallCheckInterval();
  return true;
}

bool Http2Timers::TakePing(Time now) {
  if (writing_ || pinged_at_ != Time()) return false;
  if (now - received_at_ < Nanoseconds(limits_.keepalive_time)) return false;
  pinged_at_ = now;
  return true;
}

Http2Session::StallTimeouts Http2Timers::stall_timeouts() const {
  return {.body = Nanoseconds(limits_.body_timeout), .write = Nanoseconds(limits_.write_timeout)};
}

std::chrono::nanoseconds Http2Timers::StallCheckInterval() const {
  const Http2Session::StallTimeouts timeouts = stall_timeouts();
  return std::clamp<std::chrono::nanoseconds>(std::min(timeouts.body, timeouts.write) / 4,
                                              kMinStallCheck, kMaxStallCheck);
}

}  // namespace lockstep::router
