#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep {

// The command line of a caged program. Its first argument is the parent's process id.
struct CagedArguments {
  uint32_t memory_mib = 0;    // of address space
  uint32_t cpu_seconds = 0;   // for one job; the parent ends the process much earlier
  std::string packages = {};  // folder with Python packages, if not empty
};

// The exit codes of a caged program (its __main__.py).
enum class CagedExit : int {
  kRetired = 0,
  kMisused = 2,
  kMemory = 70,
  kNoLibrary = 72,  // Python lacks the library that does the work
  kNoCage = 73,
};

// An open file of a program in Python, and the Python that runs it. The file stays open, so an
// upgrade on disk does not affect a running parent.
class PythonProgram {
 public:
  // NOT_FOUND if `path` cannot be read or `python` cannot be executed. `purpose`: what the program
  // is, for errors, as in "the template renderer".
  static absl::StatusOr<PythonProgram> Open(const std::string& path, const std::string& python,
                                            std::string purpose);
  PythonProgram(PythonProgram&& other) noexcept;
  PythonProgram& operator=(PythonProgram&& other) noexcept;
  ~PythonProgram();

  // Starts a child with `socket` as its standard input and returns its process id. The child has a
  // process group of its own. Its environment has only the time zone.
  absl::StatusOr<pid_t> Spawn(int socket, const CagedArguments& arguments) const;

  const std::string& python() const { return python_; }
  const std::string& purpose() const { return purpose_; }

 private:
  PythonProgram(int fd, std::string python, std::string purpose, std::string time_zone);

  int fd_;
  std::string python_;
  std::string purpose_;
  std::string time_zone_;  // "TZ=..."
};

}  // namespace lockstep
