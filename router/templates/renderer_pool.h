#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"
#include "router/templates/renderer_process.h"
#include "router/text/chat_template.h"

namespace lockstep::router {

struct RendererPoolConfig {
  std::string program;                      // path of lockstep-template-renderer
  std::string python = "/usr/bin/python3";  // runs it
  uint32_t max_processes = 2;               // renderings at the same time
  // Idle processes kept ready in addition, so that a request need not wait for one to start.
  uint32_t spare_processes = 1;
  RendererLimits limits;

  absl::Status Validate() const;  // every violation at once
};

// The renderer processes with the templates of one model. Each renders one chat at a time and is
// used again. A process that ends is replaced at once. Safe to use from any thread.
class RendererPool {
 public:
  // `load_frame` holds the templates.
  static absl::StatusOr<std::unique_ptr<RendererPool>> Start(const RendererPoolConfig& config,
                                                             std::string load_frame);
  ~RendererPool();

  // The result of RendererProcess::AwaitTemplate in one of the processes.
  absl::Status CheckTemplate();
  // Waits for a process if all are busy. INVALID_ARGUMENT if the rendering hits a limit or the
  // template raises an error. UNAVAILABLE if no process becomes free in time or can be started.
  absl::StatusOr<std::string> Render(std::string_view render_frame);

  // Calls `on_end` for every process that ended, on the thread that noticed. Replaces the previous
  // callback.
  void Watch(std::function<void(RendererEnd)> on_end);

 private:
  RendererPool(const RendererPoolConfig& config, PythonProgram program, std::string load_frame);

  absl::StatusOr<std::unique_ptr<RendererProcess>> Acquire();
  // Prefers a process that has parsed the templates. Call only if a process is idle.
  std::unique_ptr<RendererProcess> TakeIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a process if fewer than spare_processes are idle or about to start.
  void KeepSpare();
  // num_processes_ must count the new process already. If the start fails, it is subtracted.
  absl::StatusOr<std::unique_ptr<RendererProcess>> StartProcess();
  void Release(std::unique_ptr<RendererProcess> process);
  // Reports the end of an acquired process and starts a new one in its place.
  void Replace(RendererEnd end);

  const RendererPoolConfig config_;
  const PythonProgram program_;
  const std::string load_frame_;
  Mutex mutex_;
  CondVar released_;
  std::vector<std::unique_ptr<RendererProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_processes_ ABSL_GUARDED_BY(mutex_) = 0;  // idle, acquired, or about to start
  uint32_t num_acquired_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void(RendererEnd)> on_end_ ABSL_GUARDED_BY(mutex_);
};

// A chat template that renders in separate processes.
class CagedTemplate final : public ChatTemplate {
 public:
  // Parses the templates and renders a short chat in a process. INVALID_ARGUMENT if a template
  // cannot be parsed, or if even this chat hits a limit. An error that the template raises for this
  // chat is accepted. NOT_FOUND and UNAVAILABLE if Python or Jinja2 is missing.
  static absl::StatusOr<std::unique_ptr<const CagedTemplate>> Start(
      const RendererPoolConfig& config, const TemplateSource& source);

  absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                     const RenderOptions& options) const override;
  RendererPool& pool() const { return *pool_; }

 private:
  explicit CagedTemplate(std::unique_ptr<RendererPool> pool) : pool_(std::move(pool)) {}

  const std::unique_ptr<RendererPool> pool_;
};

}  // namespace lockstep::router
