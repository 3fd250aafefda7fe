#include "bench/router/soak/scripted_worker.h"

#include <algorithm>
#include <span>
#include <utility>

#include "bench/router/soak/pause.h"
#include "common/status.h"
#include "worker/executor/step_executor.h"
#include "worker/model/load_model.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kNumBlocks = 2048;
constexpr uint64_t kIncarnation = 1;
constexpr size_t kToken = 65;  // what it always says

class ScriptedModel final : public worker::ForwardModel {
 public:
  ScriptedModel(worker::ForwardModelInfo info, std::chrono::milliseconds step_time)
      : info_(std::move(info)), step_time_(step_time) {}

  const worker::ForwardModelInfo& info() const override { return info_; }
  void Forward(const worker::ForwardBatch&, std::span<float> logits) override {
    const Clock::time_point start = Clock::now();
    std::ranges::fill(logits, 0.0f);
    for (size_t row = 0; row < logits.size(); row += info_.vocab_size) logits[row + kToken] = 1.0f;
    PauseUntil(start + step_time_);
  }

 private:
  const worker::ForwardModelInfo info_;
  const std::chrono::milliseconds step_time_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScriptedWorker>> ScriptedWorker::Start(const Options& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<worker::ForwardModel> loaded,
      worker::LoadCpuModel(options.model, {.num_kv_blocks = kNumBlocks, .num_threads = 1}));
  std::unique_ptr<ScriptedWorker> worker(
      new ScriptedWorker(std::make_unique<ScriptedModel>(loaded->info(), options.step_time)));
  worker::ForwardModel& model = *worker->model_;
  auto executor = std::make_unique<worker::StepExecutor>(
      model, worker::ExecutorLimits{.max_slots = options.max_slots}, kIncarnation);
  LOCKSTEP_ASSIGN_OR_RETURN(
      worker->server_, worker::WorkerServer::Start(std::move(executor), model.info(), kIncarnation,
                                                   worker->metrics_, {}));
  return worker;
}

ScriptedWorker::ScriptedWorker(std::unique_ptr<worker::ForwardModel> model)
    : model_(std::move(model)), metrics_(registry_, model_->info()) {}

std::string ScriptedWorker::address() const { return FormatAddress(server_->address()); }

}  // namespace lockstep::bench
