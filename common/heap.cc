#include "common/heap.h"

#include <malloc.h>

#include <cstddef>
#include <cstdlib>

namespace lockstep {

void ReturnLargeBlocks() {
  // Pages of smaller ones cost more to get anew than they are worth.
  constexpr int kLargeBytes = 256 << 10;
  constexpr int kMaxFreeBytesAtTheEnd = 1 << 20;
  // A sanitizer's heap refuses both. It takes and returns large blocks in its own way.
  (void)mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  (void)mallopt(M_TRIM_THRESHOLD, kMaxFreeBytesAtTheEnd);
}

void ReturnFreedMemory() {
  // The end of a thread's heap is given back only when a block of this size is freed: that joins
  // the small free ones first. malloc_trim leaves the ends of all heaps but the main thread's
  // alone.
  constexpr size_t kJoiningBytes = 128 << 10;
  void* volatile block = std::malloc(kJoiningBytes);
  std::free(block);
  malloc_trim(0);
}

}  // namespace lockstep
