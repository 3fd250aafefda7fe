#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>

#include "common/instant.h"

namespace lockstep {

// From now on large blocks go back to the system as soon as they are freed. By default the C
// library starts to keep blocks of up to 32 MiB after the first of them. A process that once held
// many large requests would then keep their memory. Call once, before there are threads.
void ReturnLargeBlocks();

// Also gives back memory that was freed in small blocks: this thread's, and that of other threads
// as far as possible. Takes milliseconds if there is much of it. A thread that allocates from a
// heap waits while this call goes through that heap (bench/results/diary.md).
void ReturnFreedMemory();

// Resident memory of this process; 0 when it cannot be read.
size_t ResidentBytes();

// Says when a running process should call ReturnFreedMemory: when its resident memory beside what
// is counted as used has grown by `max_growth_bytes`, and by a quarter. It says so at most once in
// kMinInterval. If a return gives back less than a quarter of the growth, the interval doubles, up
// to kMaxInterval. The next return that gives back more resets it. Not thread-safe.
class FreedMemoryWatch {
 public:
  static constexpr absl::Duration kMinInterval = absl::Seconds(10);
  static constexpr absl::Duration kMaxInterval = absl::Seconds(40);

  explicit FreedMemoryWatch(size_t max_growth_bytes) : max_growth_bytes_(max_growth_bytes) {}

  // `used_bytes`: what is counted as in use. Some of it may not be resident.
  bool ShouldReturn(size_t resident_bytes, size_t used_bytes, Instant now);
  // Call after the return that the last ShouldReturn asked for.
  void OnReturned(size_t resident_bytes, size_t used_bytes, Instant now);

 private:
  const size_t max_growth_bytes_;
  // Growth is counted from here: resident beside used memory after the last return that gave enough
  // back, or the lowest value since then.
  size_t needed_bytes_ = SIZE_MAX;
  size_t resident_before_bytes_ = 0;  // before the return that is under way
  size_t growth_bytes_ = 0;           // growth that the return should give back
  absl::Duration interval_ = kMinInterval;
  Instant next_return_ = Instant::InfinitePast();
};

}  // namespace lockstep
