#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "router/front/connection/connection_context.h"
#include "router/front/http2/http2_session.h"

namespace lockstep::router {

// Decides when an HTTP/2 connection is closed, asked to end, or pinged. It knows when things
// happened, and has neither clock, timer nor socket. One thread at a time.
class Http2Timers {
 public:
  using Time = Http2Session::Time;

  // Both must outlive the object.
  Http2Timers(const ConnectionLimits& limits, const Http2Session& session, Time now);

  // --- events ---
  // Bytes came, and the session has read them.
  void OnReceived(Time now);
  // A write waits for the client. `num_untaken_bytes`: not acknowledged yet.
  void OnWriteWaits(size_t num_untaken_bytes, Time now);
  // Part of it left.
  void OnProgress(Time now) { wrote_at_ = now; }
  void OnWriteDone() { writing_ = false; }
  // Call after every change.
  void Update(Time now);

  // --- what is due ---
  // The earliest time at which something may be due; Time::max(): never.
  Time NextDue(Time now) const;
  // The client stalls: close the connection. `num_untaken_bytes`: not acknowledged now.
  bool IsOverdue(size_t num_untaken_bytes, Time now);
  // No request came for a while: refuse further ones.
  bool IsIdleForTooLong(Time now) const;
  // True: end the streams that have stalled.
  bool TakeStallCheck(Time now);
  // True: send a PING.
  bool TakePing(Time now);

  Http2Session::StallTimeouts stall_timeouts() const;

 private:
  std::chrono::nanoseconds StallCheckInterval() const;

  const ConnectionLimits& limits_;
  const Http2Session& session_;
  const Time began_;
  Time received_at_;
  Time pinged_at_;  // the epoch: no PING is unanswered
  Time idle_since_;
  Time stall_check_at_;             // the epoch: no stream waits for its client
  Time header_since_;               // the epoch: no header block is open
  uint64_t num_header_blocks_ = 0;  // begun so far, at the last read
  bool writing_ = false;            // a write waits for the client
  Time wrote_at_;
  size_t num_untaken_bytes_ = 0;  // unacknowledged when the write began to wait
};

}  // namespace lockstep::router
