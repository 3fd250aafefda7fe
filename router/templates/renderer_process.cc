#include "router/templates/renderer_process.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/violations.h"
#include "router/templates/renderer_frames.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kInstall =
    "install python3-jinja2, or name another Python with --template-python";

}  // namespace

absl::Status RendererLimits::Validate() const {
  Violations violations;
  violations.Require(time >= absl::Milliseconds(1) && time <= absl::Seconds(10),
                     "template_timeout: must be from 1ms to 10s");
  violations.Require(load_time >= absl::Milliseconds(1) && load_time <= absl::Minutes(1),
                     "template load time: must be from 1ms to 1m");
  violations.Require(memory_mib >= 64 && memory_mib <= 1u << 20,
                     "template memory: must be from 64 to 1048576 MiB");
  return violations.ToStatus();
}

absl::StatusOr<PythonProgram> OpenRendererProgram(const std::string& path,
                                                  const std::string& python) {
  absl::StatusOr<PythonProgram> program =
      PythonProgram::Open(path, python, "the template renderer");
  if (program.ok() || access(python.c_str(), X_OK) == 0) return program;
  return NotFound("{}. Chat templates need Python and Jinja2: {}", Message(program.status()),
                  kInstall);
}

RendererProcess::RendererProcess(std::unique_ptr<CagedProcess> process,
                                 const PythonProgram& program, const RendererLimits& limits)
    : process_(std::move(process)), program_(program), limits_(limits) {}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererProcess::Start(
    const PythonProgram& program, const RendererLimits& limits, std::string_view load_frame) {
  const auto seconds = absl::ToInt64Seconds(std::max(limits.time, limits.load_time));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<CagedProcess> process,
      CagedProcess::Start(program, {.memory_mib = limits.memory_mib,
                                    .cpu_seconds = static_cast<uint32_t>(seconds) + 2}));
  process->Send(load_frame, limits.load_time);
  return std::unique_ptr<RendererProcess>(new RendererProcess(std::move(process), program, limits));
}

absl::Status RendererProcess::ErrorOf(RendererEnd end, absl::Duration limit,
                                      std::string_view doing) const {
  switch (end) {
    case RendererEnd::kTime:
      return InvalidArgument("chat template: {} takes more than {}", doing,
                             absl::FormatDuration(limit));
    case RendererEnd::kMemory:
      return InvalidArgument("chat template: {} needs more than {} MiB", doing, limits_.memory_mib);
    case RendererEnd::kCrash:
      return InvalidArgument("chat template: {} made the template renderer crash", doing);
    case RendererEnd::kGone:
      break;
  }
  return absl::UnavailableError(
      WhyGone(process_->exit_code(), program_,
              fmt::format("Jinja2, which chat templates need: {}", kInstall)));
}

RendererProcess::Reply RendererProcess::Exchange(std::string_view frame, absl::Duration limit,
                                                 std::string_view doing) {
  CagedProcess::Reply reply = process_->Exchange(frame, limit, kMaxAnswerBytes);
  if (!reply.end) {
    absl::StatusOr<std::string> answer = ParseAnswer(reply.payload);
    if (!absl::IsInternal(answer.status())) {
      return {.result = std::move(answer), .end = std::nullopt};
    }
    reply.end = process_->Distrust();
  }
  return {.result = ErrorOf(*reply.end, limit, doing), .end = reply.end};
}

RendererProcess::Reply RendererProcess::AwaitTemplate() {
  if (loaded_) return {.result = *loaded_, .end = std::nullopt};
  Reply reply = Exchange("", limits_.load_time, "parsing");
  if (!reply.end) loaded_ = reply.result;
  return reply;
}

RendererProcess::Reply RendererProcess::Render(std::string_view frame) {
  if (!loaded_) {
    Reply loading = AwaitTemplate();
    if (loading.end || !loading.result.ok()) {
      // The template was fine when the router started, so the request is not at fault.
      return {.result = absl::UnavailableError("the template renderer does not start"),
              .end = loading.end.value_or(RendererEnd::kGone)};
    }
  }
  return Exchange(frame, limits_.time, "rendering");
}

}  // namespace lockstep::router
