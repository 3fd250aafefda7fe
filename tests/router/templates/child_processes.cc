#include "tests/router/templates/child_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace lockstep::testing {

std::vector<pid_t> ChildrenOf(pid_t parent, std::string_view name) {
  const std::string shown = std::string(name) + "\n";
  std::vector<pid_t> found;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(parent) + "/task";
  const std::filesystem::directory_iterator end;
  // A range-for would throw where `parent` ends in the middle.
  for (std::filesystem::directory_iterator task(tasks, error); task != end; task.increment(error)) {
    std::ifstream children(task->path() / "children");
    pid_t child = 0;
    while (children >> child) {
      if (ProcFile(child, "comm") == shown) found.push_back(child);
    }
  }
  return found;
}

std::string ProcFile(pid_t pid, const std::string& name) {
  const std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  // The process may end between opening and reading. This operator catches what the buffer throws
  // then.
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool HasEnded(pid_t pid) {
  constexpr int kTimeoutMs = 10'000;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (handle < 0) return true;
  pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
  const bool in_time = poll(&ended, 1, kTimeoutMs) == 1;
  close(handle);
  return in_time;
}

}  // namespace lockstep::testing
