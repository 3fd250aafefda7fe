#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

// The processes of this name (what ps shows) that `parent` has now.
std::vector<pid_t> ChildrenOf(pid_t parent, std::string_view name);
inline std::vector<pid_t> RenderersOf(pid_t parent) {
  return ChildrenOf(parent, "template-render");
}

// A file of /proc about a process; empty when the process is gone.
std::string ProcFile(pid_t pid, const std::string& name);

// Waits, for a few seconds at most, until the process is gone or a zombie.
bool HasEnded(pid_t pid);

}  // namespace lockstep::testing
