#include "router/templates/renderer_pool.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/templates/renderer_frames.h"

namespace lockstep::router {
namespace {

// A request may meet one process that ended earlier, but not two in a row.
constexpr int kAttempts = 2;

}  // namespace

absl::Status RendererPoolConfig::Validate() const {
  Violations violations;
  violations.Merge(limits.Validate());
  violations.Require(max_processes >= 1, "expected at least 1 template renderer");
  violations.Require(python.starts_with('/'), "template_python: must be an absolute path");
  return violations.ToStatus();
}

RendererPool::RendererPool(const RendererPoolConfig& config, PythonProgram program,
                           std::string load_frame)
    : config_(config), program_(std::move(program)), load_frame_(std::move(load_frame)) {}

RendererPool::~RendererPool() = default;

absl::StatusOr<std::unique_ptr<RendererPool>> RendererPool::Start(const RendererPoolConfig& config,
                                                                  std::string load_frame) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(PythonProgram program,
                            OpenRendererProgram(config.program, config.python));
  return std::unique_ptr<RendererPool>(
      new RendererPool(config, std::move(program), std::move(load_frame)));
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererPool::Acquire() {
  {
    MutexLock lock(mutex_);
    // Every process is given back within this time.
    const auto longest = absl::ToChronoNanoseconds(
        kWallFactor * (config_.limits.time + config_.limits.load_time) * kAttempts);
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (num_acquired_ == config_.max_processes) {
      if (!WaitUntil(mutex_, released_, deadline)) {
        return Unavailable("all template renderers are busy");
      }
    }
    ++num_acquired_;
    if (!idle_.empty()) return TakeIdle();
    ++num_processes_;
  }
  absl::StatusOr<std::unique_ptr<RendererProcess>> started = StartProcess();
  if (!started.ok()) {
    MutexLock lock(mutex_);
    --num_acquired_;
    released_.NotifyOne();
  }
  return started;
}

std::unique_ptr<RendererProcess> RendererPool::TakeIdle() {
  const auto loaded = std::find_if(idle_.begin(), idle_.end(),
                                   [](const auto& process) { return process->is_loaded(); });
  const auto chosen = loaded == idle_.end() ? idle_.begin() : loaded;
  std::unique_ptr<RendererProcess> process = std::move(*chosen);
  idle_.erase(chosen);
  return process;
}

void RendererPool::KeepSpare() {
  {
    MutexLock lock(mutex_);
    // Counts processes that are idle or about to start.
    if (num_processes_ - num_acquired_ >= config_.spare_processes) return;
    ++num_processes_;
  }
  absl::StatusOr<std::unique_ptr<RendererProcess>> spare = StartProcess();
  if (!spare.ok()) return;
  MutexLock lock(mutex_);
  idle_.push_back(*std::move(spare));
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererPool::StartProcess() {
  absl::StatusOr<std::unique_ptr<RendererProcess>> started =
      RendererProcess::Start(program_, config_.limits, load_frame_);
  if (!started.ok()) {
    spdlog::warn("{}", Message(started.status()));
    MutexLock lock(mutex_);
    --num_processes_;
  }
  return started;
}

void RendererPool::Release(std::unique_ptr<RendererProcess> process) {
  MutexLock lock(mutex_);
  if (process != nullptr) idle_.push_back(std::move(process));
  --num_acquired_;
  released_.NotifyOne();
}

void RendererPool::Replace(RendererEnd end) {
  std::function<void(RendererEnd)> on_end;
  {
    MutexLock lock(mutex_);
    on_end = on_end_;
  }
  if (on_end) on_end(end);
  // The new process parses the templates now, before a request needs it.
  absl::StatusOr<std::unique_ptr<RendererProcess>> successor = StartProcess();
  Release(successor.ok() ? *std::move(successor) : nullptr);
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
    KeepSpare();
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
  size_t num_bytes = 0;
  for (const auto& [name, text] : source.templates) num_bytes += text.size();
  if (num_bytes > kMaxTemplateBytes) {
    return InvalidArgument("chat templates of {} bytes, expected at most {}", num_bytes,
                           kMaxTemplateBytes);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<RendererPool> pool,
                            RendererPool::Start(config, LoadFrame(source)));
  LOCKSTEP_RETURN_IF_ERROR(pool->CheckTemplate());
  std::unique_ptr<const CagedTemplate> caged(new CagedTemplate(std::move(pool)));
  // An error that the template raises is fine: it may expect other roles.
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
