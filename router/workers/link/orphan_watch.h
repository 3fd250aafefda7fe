#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace lockstep::router {

// The longest pause between two claims of a router that shares its workers. Stand-ins wait longer,
// so a sick worker stays with a router that tries it more and more rarely. Otherwise each stand-in
// would take it in turn, and give it requests.
inline absl::Duration LongestSharedPause(absl::Duration orphan_wait) { return orphan_wait / 2; }

// When a router may take a worker that belongs to another one: once no lease on it has lived for
// `wait`. Looks at what the worker says of its leases. Every lease raises the worker's last epoch,
// so two looks that find the same epoch and no lease prove that none lived in between. Pure.
class OrphanWatch {
 public:
  explicit OrphanWatch(absl::Duration wait) : wait_(wait) {}

  struct Sight {
    uint64_t incarnation = 0;
    uint64_t last_epoch = 0;
    uint64_t live_epoch = 0;  // 0: no lease lives
  };
  // How long it is until the worker may be taken, if no lease comes meanwhile: zero or less if it
  // may be taken now, infinite while a lease lives. A worker that has restarted is watched anew:
  // its owner has to find it first.
  absl::Duration Look(const Sight& sight, Instant now) {
    if (sight.live_epoch != 0) {
      free_since_ = Instant::InfiniteFuture();
      return absl::InfiniteDuration();
    }
    if (sight.incarnation != last_.incarnation || sight.last_epoch != last_.last_epoch) {
      free_since_ = Instant::InfiniteFuture();
    }
    last_ = sight;
    free_since_ = std::min(free_since_, now);
    return wait_ - (now - free_since_);
  }

 private:
  const absl::Duration wait_;
  Sight last_;
  Instant free_since_ =
      Instant::InfiniteFuture();  // InfiniteFuture: a lease lived at the last look
};

}  // namespace lockstep::router
