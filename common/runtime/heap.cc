#include "common/runtime/heap.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "common/instant.h"

namespace lockstep {
namespace {

size_t Beside(size_t used_bytes, size_t resident_bytes) {
  return resident_bytes - std::min(resident_bytes, used_bytes);
}

}  // namespace

void ReturnLargeBlocks() {
  // Getting the pages of smaller blocks again costs more than they are worth.
  constexpr int kLargeBytes = 256 << 10;
  constexpr int kMaxFreeBytesAtTheEnd = 1 << 20;
  // A sanitizer's heap refuses both. It takes and returns large blocks in its own way.
  (void)mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  (void)mallopt(M_TRIM_THRESHOLD, kMaxFreeBytesAtTheEnd);
}

void ReturnFreedMemory() {
  // The end of a thread's heap is given back only when a block of this size is freed. Freeing it
  // first joins the small free blocks. malloc_trim gives back the end of the main thread's heap
  // only.
  constexpr size_t kJoiningBytes = 128 << 10;
  void* volatile block = std::malloc(kJoiningBytes);
  std::free(block);
  malloc_trim(0);
}

size_t ResidentBytes() {
  size_t size_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> size_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

bool FreedMemoryWatch::ShouldReturn(size_t resident_bytes, size_t used_bytes, Instant now) {
  const size_t beside_bytes = Beside(used_bytes, resident_bytes);
  // Used bytes that are not resident make the rest look smaller than it is. If the needed bytes
  // followed, the rest would seem to have grown once the used bytes are gone.
  needed_bytes_ = std::min(needed_bytes_, std::max(beside_bytes, used_bytes));
  growth_bytes_ = Beside(needed_bytes_, beside_bytes);
  resident_before_bytes_ = resident_bytes;
  // The growth must also be in proportion, so that a process that comes to need a lot is not halted
  // again and again.
  return now >= next_return_ && growth_bytes_ >= std::max(max_growth_bytes_, needed_bytes_ / 4);
}

void FreedMemoryWatch::OnReturned(size_t resident_bytes, size_t used_bytes, Instant now) {
  const size_t returned_bytes = Beside(resident_bytes, resident_before_bytes_);
  if (returned_bytes >= growth_bytes_ / 4) {
    interval_ = kMinInterval;
    needed_bytes_ =
        std::max(Beside(used_bytes, resident_bytes), std::min(needed_bytes_, used_bytes));
  } else {
    interval_ = std::min(2 * interval_, kMaxInterval);
  }
  next_return_ = now + interval_;
}

}  // namespace lockstep
