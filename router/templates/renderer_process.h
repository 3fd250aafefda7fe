#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::router {

// Built with a sanitizer, which reserves terabytes of address space and opens files of its own: no
// bound on these then, and no filter of system calls.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// What one rendering may use. A renderer that uses more is killed.
struct RendererLimits {
  // Processor time of one rendering. It may take kWallFactor times as long on a busy machine.
  absl::Duration time = absl::Milliseconds(200);
  absl::Duration load_time = absl::Seconds(5);  // likewise, to start and to parse the template
  uint32_t memory_mib = 256;                    // address space, without sanitizers

  absl::Status Validate() const;  // every violation at once
};
inline constexpr int kWallFactor = 5;

// Why a renderer is not there any more.
enum class RendererEnd {
  kTime,    // it used more time than it may
  kMemory,  // or memory
  kStack,   // calls too deep: a value or macro that refers to itself
  kCrash,   // anything else that the template made it do
  kGone,    // not because of what it was asked to do: it retired, or somebody else ended it
};

// How the renderer program ends by itself; its parent reads it as the exit code.
enum class RendererExit : int {
  kRetired = 0,
  kMisused = 2,
  kMemory = 70,
  kStack = 71,
  kNotLoaded = 127,  // the dynamic loader's: a shared library is missing
};

// An open file of the program, so that an upgrade on the disk changes nothing for a running router.
class RendererProgram {
 public:
  // NOT_FOUND when nothing at `path` can be executed.
  static absl::StatusOr<RendererProgram> Open(const std::string& path);
  RendererProgram(RendererProgram&& other) noexcept;
  RendererProgram& operator=(RendererProgram&& other) noexcept;
  ~RendererProgram();

  int fd() const { return fd_; }

 private:
  explicit RendererProgram(int fd) : fd_(fd) {}

  int fd_;
};

// One renderer program as a child process, with one template. It has an empty environment, a
// process group of its own, and of descriptors only its end of a socket pair. It dies with this
// object, and with the thread that started it. For one thread at a time.
class RendererProcess {
 public:
  // Does not wait for the template to be parsed.
  static absl::StatusOr<std::unique_ptr<RendererProcess>> Start(const RendererProgram& program,
                                                                const RendererLimits& limits,
                                                                std::string_view load_frame);
  RendererProcess(const RendererProcess&) = delete;
  RendererProcess& operator=(const RendererProcess&) = delete;
  ~RendererProcess();

  struct Reply {
    absl::StatusOr<std::string> result;
    std::optional<RendererEnd> end;  // set: the process is gone
  };
  // Waits until the template is parsed. The text is empty; INVALID_ARGUMENT says why the template
  // is none. Further calls repeat the result.
  Reply AwaitTemplate();
  // `frame` is a RenderFrame. INVALID_ARGUMENT when a limit is hit, UNAVAILABLE for kGone.
  Reply Render(std::string_view frame);

  pid_t pid() const { return pid_; }

 private:
  RendererProcess(pid_t pid, int socket, const RendererLimits& limits);

  // Sends `frame`, if there is one, and waits for the answer. `doing` is for errors.
  Reply Exchange(std::string_view frame, absl::Duration limit, std::string_view doing);
  absl::Duration UsedTime() const;
  // Ends the process, if it still runs, and says how it ended.
  RendererEnd Reap();

  pid_t pid_;  // -1: gone
  int socket_;
  const RendererLimits limits_;
  clockid_t cpu_clock_{};
  std::optional<absl::StatusOr<std::string>> loaded_;
};

}  // namespace lockstep::router
