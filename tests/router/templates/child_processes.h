#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::testing {

// The renderer processes that `parent` has now.
std::vector<pid_t> RenderersOf(pid_t parent);

// A file of /proc about a process; empty when the process is gone.
std::string ProcFile(pid_t pid, const std::string& name);

// Waits, for a few seconds at most, until the process is gone or a zombie.
bool HasEnded(pid_t pid);

}  // namespace lockstep::testing
