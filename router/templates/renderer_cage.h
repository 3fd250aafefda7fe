#pragma once

#include <sys/types.h>

#include <cstdint>

// What the renderer program gives up before it reads anything, and how it ends when it needs more
// than it may. Linux only.
namespace lockstep::router {

struct CageLimits {
  pid_t parent = 0;           // the process is to end with it
  uint64_t memory_bytes = 0;  // of address space
};

// No new files, processes, privileges or core dumps; no system calls but those of memory and of
// transfers over open descriptors (x86-64 and ARM). With sanitizers (kSanitized) some of it is left
// out. The process ends with its parent, with RendererExit::kMemory when memory runs out, and with
// kStack when the stack does. False when the kernel refused something, or the parent is gone.
bool EnterCage(const CageLimits& limits);

// Call before each job: SIGPROF ends the process when it uses so much processor time before the
// next call. The parent ends it before; this is for a parent that is stopped.
void AllowProcessorTime(uint32_t seconds);

}  // namespace lockstep::router
