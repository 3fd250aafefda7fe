#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lockstep {

// A token bucket: `burst` events at once, `per_second` events in the long run, plus the events that
// Give adds. Not safe to use from several threads.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RateLimit(uint32_t burst, uint32_t per_second)
      : burst_(int64_t{burst} * kUnit), per_second_(per_second), tokens_(burst_) {}

  // Returns false if there are too many events.
  bool Take(Time now) {
    if (tokens_ < kUnit) Refill(now);
    if (tokens_ < kUnit) return false;
    tokens_ -= kUnit;
    return true;
  }
  // Allows `count` more events, even beyond the burst. A client may read late and answer all at
  // once.
  void Give(uint32_t count) { tokens_ += int64_t{count} * kUnit; }

 private:
  static constexpr int64_t kUnit = 1'000'000;  // of a token

  void Refill(Time now) {
    // The clock starts when the bucket is empty for the first time. So a bucket that is never empty
    // costs nothing.
    if (refilled_ == Time()) refilled_ = now - std::chrono::seconds(1);
    const auto elapsed = std::min<std::chrono::nanoseconds>(now - refilled_, std::chrono::hours(1));
    const int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count();
    if (micros <= 0) return;
    refilled_ += std::chrono::microseconds(micros);
    if (elapsed == std::chrono::hours(1)) refilled_ = now;
    tokens_ = std::min(burst_, tokens_ + micros * int64_t{per_second_} * (kUnit / 1'000'000));
  }

  const int64_t burst_;
  const uint32_t per_second_;
  int64_t tokens_;
  Time refilled_;
};

}  // namespace lockstep
