#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep::router {

// The command line of the renderer program.
struct RendererArguments {
  uint32_t memory_mib = 0;   // of address space
  uint32_t cpu_seconds = 0;  // for one job; the parent ends the process much earlier
};

// The exit codes of the renderer program (renderer/__main__.py).
enum class RendererExit : int {
  kRetired = 0,
  kMisused = 2,
  kMemory = 70,
  kNoJinja = 72,
  kNoCage = 73,
};

// An open file of lockstep-template-renderer, and the Python that runs it. The file stays open, so
// an upgrade on disk does not affect a running router.
class RendererProgram {
 public:
  // NOT_FOUND if `path` cannot be read or `python` cannot be executed.
  static absl::StatusOr<RendererProgram> Open(const std::string& path, const std::string& python);
  RendererProgram(RendererProgram&& other) noexcept;
  RendererProgram& operator=(RendererProgram&& other) noexcept;
  ~RendererProgram();

  // Starts a child with `socket` as its standard input and returns its process id. The child has a
  // process group of its own. Its environment has only the time zone.
  absl::StatusOr<pid_t> Spawn(int socket, const RendererArguments& arguments) const;

  const std::string& python() const { return python_; }

 private:
  RendererProgram(int fd, std::string python, std::string time_zone);

  int fd_;
  std::string python_;
  std::string time_zone_;  // "TZ=..."
};

}  // namespace lockstep::router
