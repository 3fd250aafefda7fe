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
  // Processes beyond those that render, so that one is ready when another ends or is new.
  uint32_t spare_processes = 1;
  RendererLimits limits;

  absl::Status Validate() const;  // every violation at once
};

// Renderer processes with the templates of one model. Each serves one rendering at a time and stays
// for the next; one that ends is replaced at once. Safe to use from any thread.
class RendererPool {
 public:
  // `load_frame` holds the templates.
  static absl::StatusOr<std::unique_ptr<RendererPool>> Start(const RendererPoolConfig& config,
                                                             std::string load_frame);
  ~RendererPool();

  // What AwaitTemplate of a first process says.
  absl::Status CheckTemplate();
  // Waits for a process when all are busy. INVALID_ARGUMENT when the rendering hits a limit,
  // UNAVAILABLE when no process can be had or started.
  absl::StatusOr<std::string> Render(std::string_view render_frame);

  // Is told of every process that ended, on the thread that noticed; replaces the one before.
  void Watch(std::function<void(RendererEnd)> on_end);

 private:
  RendererPool(const RendererPoolConfig& config, RendererProgram program, std::string load_frame);

  absl::StatusOr<std::unique_ptr<RendererProcess>> Acquire();
  // One that has parsed the templates, if there is one.
  std::unique_ptr<RendererProcess> TakeIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts one if none is idle and there may be one more.
  void KeepSpare();
  // For a place that num_processes_ counts already; a failure gives the place back.
  absl::StatusOr<std::unique_ptr<RendererProcess>> StartProcess();
  void Release(std::unique_ptr<RendererProcess> process);
  // Tells of the end of a process that was acquired, and starts its successor in its place.
  void Replace(RendererEnd end);

  const RendererPoolConfig config_;
  const RendererProgram program_;
  const std::string load_frame_;
  Mutex mutex_;
  CondVar released_;
  std::vector<std::unique_ptr<RendererProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_processes_ ABSL_GUARDED_BY(mutex_) = 0;  // idle, acquired, or about to start
  uint32_t num_acquired_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void(RendererEnd)> on_end_ ABSL_GUARDED_BY(mutex_);
};

// A chat template that renders in processes of its own.
class CagedTemplate final : public ChatTemplate {
 public:
  // Parses the templates and renders a short chat, in a process. INVALID_ARGUMENT for a template
  // that is none, or that cannot render even that within the limits; a template may refuse the chat
  // with an error of its own. NOT_FOUND and UNAVAILABLE when Python or Jinja2 is missing.
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
