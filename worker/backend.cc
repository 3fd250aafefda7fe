#include "worker/backend.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/status.h"
#include "worker/cpu/load_model.h"
#include "worker/cpu/step_runner.h"
#include "worker/drafters/ngram_drafter.h"
#include "worker/steps/drafter.h"

namespace lockstep::worker {
namespace {

class CpuBackend final : public Backend {
 public:
  // `drafter` may be null.
  CpuBackend(std::unique_ptr<ForwardModel> model, const ExecutorLimits& limits,
             std::unique_ptr<Drafter> drafter)
      : model_(std::move(model)), limits_(limits), drafter_(std::move(drafter)) {}

  const ForwardModelInfo& info() const override { return model_->info(); }
  absl::StatusOr<std::unique_ptr<StepRunner>> MakeRunner(uint64_t incarnation) override {
    return std::make_unique<CpuStepRunner>(*model_, limits_, incarnation, drafter_.get());
  }

 private:
  const std::unique_ptr<ForwardModel> model_;
  const ExecutorLimits limits_;
  const std::unique_ptr<Drafter> drafter_;
};

absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend(const WorkerConfig& config,
                                                        LoadStageProgress progress) {
  ModelOptions options = config.model_options();
  options.progress = std::move(progress);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ForwardModel> model,
                            LoadCpuModel(config.model, options));
  if (!config.drafts(/*by_default=*/true)) {
    return std::make_unique<CpuBackend>(std::move(model), config.executor_limits(), nullptr);
  }
  return std::make_unique<CpuBackend>(std::move(model), config.executor_limits_with_drafts(),
                                      std::make_unique<NgramDrafter>());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const WorkerConfig& config,
                                                     LoadStageProgress progress) {
  if (config.device != "cpu") {
    const absl::Status first_device = CheckCudaDevice(config);
    LOCKSTEP_ASSIGN_OR_RETURN(const bool on_cuda, config.ServesOnCuda(first_device));
    if (on_cuda) return OpenCudaBackend(config.For(kGpuDefaults), std::move(progress));
    spdlog::info("serving on the CPU: {}", Message(first_device));
  }
  return OpenCpuBackend(config.For(kCpuDefaults), std::move(progress));
}

}  // namespace lockstep::worker
