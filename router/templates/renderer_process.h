#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/caged/caged_process.h"
#include "common/caged/python_program.h"

namespace lockstep::router {

// True in sanitizer builds. The router is several times slower then, its renderers are not.
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
  // Processor time of one rendering. Wall time may be kWallFactor times as long.
  absl::Duration time = absl::Milliseconds(200);
  absl::Duration load_time = absl::Seconds(5);  // the same, for start and parsing
  uint32_t memory_mib = 256;                    // address space

  absl::Status Validate() const;  // every violation at once
};
// Why a renderer process ended. kCrash: the template made it fail.
using RendererEnd = CagedEnd;

// Opens the renderer program, as PythonProgram::Open. The error says what to install.
absl::StatusOr<PythonProgram> OpenRendererProgram(const std::string& path,
                                                  const std::string& python);

// A child process that runs the renderer program with the templates of one model. It dies with this
// object, and with the thread that started it. Used by one thread at a time.
class RendererProcess {
 public:
  // Returns before the templates are parsed. `program` must outlive the process.
  static absl::StatusOr<std::unique_ptr<RendererProcess>> Start(const PythonProgram& program,
                                                                const RendererLimits& limits,
                                                                std::string_view load_frame);

  struct Reply {
    absl::StatusOr<std::string> result;
    std::optional<RendererEnd> end;  // set: the process is gone
  };
  // Waits until the templates are parsed. The text is empty. INVALID_ARGUMENT says why a template
  // cannot be parsed. Later calls return the same result.
  Reply AwaitTemplate();
  // `frame` must be a RenderFrame. INVALID_ARGUMENT if a limit is hit, UNAVAILABLE for kGone.
  Reply Render(std::string_view frame);

  bool is_loaded() const { return loaded_.has_value(); }
  pid_t pid() const { return process_->pid(); }

 private:
  RendererProcess(std::unique_ptr<CagedProcess> process, const PythonProgram& program,
                  const RendererLimits& limits);

  // Sends `frame` unless it is empty, and waits for the answer. `doing` names the action in errors.
  Reply Exchange(std::string_view frame, absl::Duration limit, std::string_view doing);
  absl::Status ErrorOf(RendererEnd end, absl::Duration limit, std::string_view doing) const;

  const std::unique_ptr<CagedProcess> process_;
  const PythonProgram& program_;
  const RendererLimits limits_;
  std::optional<absl::StatusOr<std::string>> loaded_;
};

}  // namespace lockstep::router
