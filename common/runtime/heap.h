#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>

#include "common/instant.h"

namespace lockstep {

// From now on large blocks go back to the system as soon as they are freed. By default the C
// library learns from the first of them to keep blocks of up to 32 MiB, and a process that once
// held many large requests would keep their memory. Once, before there are threads.
void ReturnLargeBlocks();

// Gives back what this thread freed in small blocks, too, and others as far as may be. Takes
// milliseconds where there is much. A thread that allocates in a heap that is being gone through
// waits meanwhile (docs/performance.md).
void ReturnFreedMemory();

// Resident memory of this process; 0 when it cannot be read.
size_t ResidentBytes();

// Says when a process that goes on should call ReturnFreedMemory: its memory beside what is counted
// as used has grown by so much, and by a quarter. At most once in kMinInterval. A return that gives
// back less than a quarter of the growth doubles the interval, up to kMaxInterval, and the next one
// that gives back more ends that. Not thread-safe.
class FreedMemoryWatch {
 public:
  static constexpr absl::Duration kMinInterval = absl::Seconds(10);
  static constexpr absl::Duration kMaxInterval = absl::Seconds(40);

  explicit FreedMemoryWatch(size_t max_growth_bytes) : max_growth_bytes_(max_growth_bytes) {}

  // `used_bytes`: what is counted as in use. Some of it may not be resident.
  bool ShouldReturn(size_t resident_bytes, size_t used_bytes, Instant now);
  // After the return that the last ShouldReturn asked for.
  void OnReturned(size_t resident_bytes, size_t used_bytes, Instant now);

 private:
  const size_t max_growth_bytes_;
  // Growth starts here: what was resident beside what was used after the last return that gave
  // enough back, or the least since then.
  size_t needed_bytes_ = SIZE_MAX;
  size_t resident_before_bytes_ = 0;  // the return that is under way
  size_t growth_bytes_ = 0;           // that it hopes for
  absl::Duration interval_ = kMinInterval;
  Instant next_return_ = Instant::InfinitePast();
};

}  // namespace lockstep
