#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;

// Of schedules: faults and arrivals come at fixed times, not in answer to events.
inline void PauseUntil(Clock::time_point time) {
  boost::asio::io_context context;
  boost::asio::steady_timer(context, time).wait();
}

inline void PauseFor(Clock::duration duration) { PauseUntil(Clock::now() + duration); }

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline Clock::duration SecondsToDuration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace lockstep::bench
