#pragma once

#include <absl/status/statusor.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/rigs/instant_worker/paced_runner.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_server.h"

namespace lockstep::bench {

// A worker as the router sees it, on a free port of this machine, of the model in a folder with
// config.json and tokenizer.json; behind it a PacedRunner. With `window_tokens` it has a second KV
// group with such a window.
class InstantWorker {
 public:
  static absl::StatusOr<std::unique_ptr<InstantWorker>> Start(const std::string& model_path,
                                                              uint32_t max_slots,
                                                              uint32_t window_tokens = 0);
  ~InstantWorker() { runner_->Release(); }

  std::string address() const { return FormatAddress(server_->address()); }
  uint32_t vocab_size() const { return info_.vocab_size; }
  uint32_t max_context_tokens() const { return info_.max_context_tokens; }
  PacedRunner& runner() { return *runner_; }

 private:
  InstantWorker() = default;

  worker::ForwardModelInfo info_;
  prometheus::Registry registry_;
  std::unique_ptr<worker::WorkerMetrics> metrics_;
  PacedRunner* runner_ = nullptr;  // the server's
  std::unique_ptr<worker::WorkerServer> server_;
};

}  // namespace lockstep::bench
