#include "router/templates/renderer_pool.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "router/templates/renderer_frames.h"
#include "router/templates/template_layout.h"

namespace lockstep::router {
namespace {

// A request may meet one process that ended before it, not two in a row.
constexpr int kAttempts = 2;

}  // namespace

RendererPool::RendererPool(const RendererPoolConfig& config, RendererProgram program,
                           std::string load_frame)
    : config_(config), program_(std::move(program)), load_frame_(std::move(load_frame)) {}

RendererPool::~RendererPool() = default;

absl::StatusOr<std::unique_ptr<RendererPool>> RendererPool::Start(const RendererPoolConfig& config,
                                                                  std::string load_frame) {
  LOCKSTEP_RETURN_IF_ERROR(config.limits.Validate());
  if (config.max_processes == 0) return InvalidArgument("expected at least 1 template renderer");
  LOCKSTEP_ASSIGN_OR_RETURN(RendererProgram program, RendererProgram::Open(config.program));
  return std::unique_ptr<RendererPool>(
      new RendererPool(config, std::move(program), std::move(load_frame)));
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererPool::Acquire() {
  {
    MutexLock lock(mutex_);
    // Whoever has a process gives it back within this time.
    const auto longest = absl::ToChronoNanoseconds(
        kWallFactor * (config_.limits.time + config_.limits.load_time) * kAttempts);
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (idle_.empty() && num_processes_ == config_.max_processes) {
      if (!WaitUntil(mutex_, released_, deadline)) {
        return Unavailable("all template renderers are busy");
      }
    }
    if (!idle_.empty()) {
      std::unique_ptr<RendererProcess> process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
    ++num_processes_;
  }
  return StartProcess();
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererPool::StartProcess() {
  absl::StatusOr<std::unique_ptr<RendererProcess>> started =
      RendererProcess::Start(program_, config_.limits, load_frame_);
  if (!started.ok()) {
    spdlog::warn("{}", Message(started.status()));
    MutexLock lock(mutex_);
    --num_processes_;
    released_.NotifyOne();
  }
  return started;
}

void RendererPool::Release(std::unique_ptr<RendererProcess> process) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(process));
  released_.NotifyOne();
}

void RendererPool::Replace(RendererEnd end) {
  std::function<void(RendererEnd)> on_end;
  {
    MutexLock lock(mutex_);
    on_end = on_end_;
  }
  if (on_end) on_end(end);
  // It parses the template while nobody waits for it.
  absl::StatusOr<std::unique_ptr<RendererProcess>> successor = StartProcess();
  if (successor.ok()) Release(*std::move(successor));
}

void RendererPool::Watch(std::function<void(RendererEnd)> on_end) {
  MutexLock lock(mutex_);
  on_end_ = std::move(on_end);
}

absl::Status RendererPool::CheckTemplate() {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<RendererProcess> process, Acquire());
  const RendererProcess::Reply reply = process->AwaitTemplate();
  if (reply.end) {
    process.reset();
    Replace(*reply.end);
  } else {
    Release(std::move(process));
  }
  return reply.result.status();
}

absl::StatusOr<std::string> RendererPool::Render(std::string_view render_frame) {
  absl::Status last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<RendererProcess> process, Acquire());
    RendererProcess::Reply reply = process->Render(render_frame);
    if (!reply.end) {
      Release(std::move(process));
      return std::move(reply.result);
    }
    process.reset();
    Replace(*reply.end);
    last = reply.result.status();
    if (*reply.end != RendererEnd::kGone) break;
  }
  return last;
}

absl::StatusOr<std::unique_ptr<const CagedTemplate>> CagedTemplate::Start(
    const RendererPoolConfig& config, const TemplateSource& source) {
  if (source.text.size() > kMaxTemplateBytes) {
    return InvalidArgument("chat template of {} bytes, expected at most {}", source.text.size(),
                           kMaxTemplateBytes);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<RendererPool> pool,
                            RendererPool::Start(config, LoadFrame(source)));
  LOCKSTEP_RETURN_IF_ERROR(pool->CheckTemplate());
  std::unique_ptr<const CagedTemplate> caged(new CagedTemplate(std::move(pool)));
  // An error of the template's own is fine: it may want other roles.
  std::optional<RendererEnd> end;
  caged->pool().Watch([&end](RendererEnd seen) { end = seen; });
  const std::vector<ChatMessage> chat = {{.role = "user", .content = "Hello!", .name = ""}};
  const absl::StatusOr<std::string> rendered = caged->Render(chat, {});
  caged->pool().Watch(nullptr);
  const bool hit_a_limit = end && *end != RendererEnd::kGone;
  if (!rendered.ok() && (hit_a_limit || absl::IsUnavailable(rendered.status()))) {
    return rendered.status();
  }
  return caged;
}

absl::StatusOr<std::string> CagedTemplate::Render(std::span<const ChatMessage> messages,
                                                  const RenderOptions& options) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string frame, RenderFrame(messages, options));
  return pool_->Render(frame);
}

}  // namespace lockstep::router
