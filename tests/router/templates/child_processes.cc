#include "tests/router/templates/child_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep::testing {

std::vector<pid_t> RenderersOf(pid_t parent) {
  std::vector<pid_t> renderers;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(parent) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream children(task.path() / "children");
    pid_t child = 0;
    while (children >> child) {
      if (ProcFile(child, "comm") == "template-render\n") renderers.push_back(child);
    }
  }
  return renderers;
}

std::string ProcFile(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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
