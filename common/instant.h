#pragma once

#include <absl/time/time.h>

#include <compare>
#include <ostream>

namespace lockstep {

// A point on the monotonic clock. This clock goes on while the time of day is set, and says nothing
// about the time of day. Instants of one process can be compared. Instants of two processes cannot.
// Logs and the API use absl::Time (Clock::TimeOfDay).
class Instant {
 public:
  // The origin: some instant, always the same one.
  constexpr Instant() = default;
  // This long after the origin.
  static constexpr Instant After(absl::Duration since_origin) { return Instant(since_origin); }
  static constexpr Instant InfiniteFuture() { return Instant(absl::InfiniteDuration()); }
  static constexpr Instant InfinitePast() { return Instant(-absl::InfiniteDuration()); }

  constexpr absl::Duration since_origin() const { return since_origin_; }

  Instant& operator+=(absl::Duration by) {
    since_origin_ += by;
    return *this;
  }
  friend Instant operator+(Instant at, absl::Duration by) { return at += by; }
  friend Instant operator-(Instant at, absl::Duration by) { return at += -by; }
  friend absl::Duration operator-(Instant a, Instant b) {
    return a.since_origin_ - b.since_origin_;
  }
  friend constexpr bool operator==(Instant a, Instant b) {
    return a.since_origin_ == b.since_origin_;
  }
  friend constexpr std::strong_ordering operator<=>(Instant a, Instant b) {
    if (a.since_origin_ < b.since_origin_) return std::strong_ordering::less;
    return a == b ? std::strong_ordering::equal : std::strong_ordering::greater;
  }
  template <typename H>
  friend H AbslHashValue(H h, Instant at) {
    return H::combine(std::move(h), at.since_origin_);
  }
  // For messages of tests.
  friend std::ostream& operator<<(std::ostream& out, Instant at) {
    return out << absl::FormatDuration(at.since_origin_);
  }

 private:
  explicit constexpr Instant(absl::Duration since_origin) : since_origin_(since_origin) {}

  absl::Duration since_origin_;
};

}  // namespace lockstep
