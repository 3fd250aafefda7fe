#include "common/caged/python_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

// Descriptors of the child: standard input is its socket, and this one is the program's file.
constexpr int kProgramFd = 3;
constexpr char kProgramPath[] = "/proc/self/fd/3";
constexpr int kLowestOwnFd = 10;  // above the child's descriptors

// posix_spawn's two parameter blocks.
class SpawnPlan {
 public:
  SpawnPlan(int program_fd, int child_socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, child_socket, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, program_fd, kProgramFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kProgramFd + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// The time zone of this process, always with a name. For a zone without a name, the C library reads
// the zone's file for every formatted date, and the cage has no files.
std::string TimeZone() {
  std::ifstream file("/proc/self/environ", std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.starts_with("TZ=")) return entry;
  }
  return "TZ=:/etc/localtime";
}

}  // namespace

absl::StatusOr<PythonProgram> PythonProgram::Open(const std::string& path,
                                                  const std::string& python, std::string purpose) {
  if (access(python.c_str(), X_OK) != 0) {
    return NotFound("{}: cannot be executed: {}. It runs {}", python, std::strerror(errno),
                    purpose);
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return NotFound("{}: {} cannot be read: {}", path, purpose, std::strerror(errno));
  }
  const int high_fd = fcntl(fd, F_DUPFD_CLOEXEC, kLowestOwnFd);
  close(fd);
  if (high_fd < 0) return Unavailable("{}: {}", path, std::strerror(errno));
  return PythonProgram(high_fd, python, std::move(purpose), TimeZone());
}

PythonProgram::PythonProgram(int fd, std::string python, std::string purpose, std::string time_zone)
    : fd_(fd),
      python_(std::move(python)),
      purpose_(std::move(purpose)),
      time_zone_(std::move(time_zone)) {}

PythonProgram::PythonProgram(PythonProgram&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      python_(std::move(other.python_)),
      purpose_(std::move(other.purpose_)),
      time_zone_(std::move(other.time_zone_)) {}

PythonProgram& PythonProgram::operator=(PythonProgram&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(python_, other.python_);
  std::swap(purpose_, other.purpose_);
  std::swap(time_zone_, other.time_zone_);
  return *this;
}

PythonProgram::~PythonProgram() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<pid_t> PythonProgram::Spawn(int socket, const CagedArguments& arguments) const {
  // Isolated, without site packages, without writing cache files (python3 --help).
  std::array<std::string, 9> words = {python_,
                                      "-I",
                                      "-S",
                                      "-B",
                                      kProgramPath,
                                      std::to_string(getpid()),
                                      std::to_string(arguments.memory_mib),
                                      std::to_string(arguments.cpu_seconds),
                                      arguments.packages};
  std::array<char*, words.size() + 1> argv{};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  if (arguments.packages.empty()) argv[words.size() - 1] = nullptr;
  std::array<char*, 2> environment{const_cast<char*>(time_zone_.c_str()), nullptr};
  const SpawnPlan plan(fd_, socket);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, python_.c_str(), plan.actions(), plan.attributes(),
                                argv.data(), environment.data());
  if (error == 0) return pid;
  return Unavailable("cannot start {} with {}: {}", purpose_, python_, std::strerror(error));
}

}  // namespace lockstep
