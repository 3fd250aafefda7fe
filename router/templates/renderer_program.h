#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep::router {

// What the renderer program is told when it starts.
struct RendererArguments {
  uint32_t memory_mib = 0;   // of address space
  uint32_t cpu_seconds = 0;  // of one job; the parent ends the process long before
};

// How the renderer program ends by itself (renderer/__main__.py); its parent reads it as the exit
// code.
enum class RendererExit : int {
  kRetired = 0,
  kMisused = 2,
  kMemory = 70,
  kNoJinja = 72,
  kNoCage = 73,
};

// An open file of lockstep-template-renderer, and the Python that runs it. The file is open, so an
// upgrade on the disk changes nothing for a running router.
class RendererProgram {
 public:
  // NOT_FOUND if `path` cannot be read or `python` cannot be executed.
  static absl::StatusOr<RendererProgram> Open(const std::string& path, const std::string& python);
  RendererProgram(RendererProgram&& other) noexcept;
  RendererProgram& operator=(RendererProgram&& other) noexcept;
  ~RendererProgram();

  // Starts a child with `socket` as its standard input. It has an environment without anything but
  // the time zone, and a process group of its own. Gives its id.
  absl::StatusOr<pid_t> Spawn(int socket, const RendererArguments& arguments) const;

  const std::string& python() const { return python_; }

 private:
  RendererProgram(int fd, std::string python, std::string time_zone);

  int fd_;
  std::string python_;
  std::string time_zone_;  // "TZ=..."
};

}  // namespace lockstep::router
