#include <cstdlib>
#include <utility>
#include <vector>

#include "common/status.h"
#include "kernels/device/cuda_device.h"
#include "worker/backend.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::worker {
namespace {

CudaDrafts DraftsOf(const WorkerConfig& config) {
  if (!config.drafts(/*by_default=*/false)) return {};
  return {.source = config.scripted_drafts ? CudaDraftSource::kScript : CudaDraftSource::kRepeats,
          .max_tokens = config.max_draft_tokens};
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<CudaModel> model, const ExecutorLimits& limits,
              CudaDraftSource draft_source)
      : model_(std::move(model)), limits_(limits), draft_source_(draft_source) {}

  const ForwardModelInfo& info() const override { return model_->info(); }
  absl::StatusOr<std::unique_ptr<StepRunner>> MakeRunner(uint64_t incarnation) override {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CudaStepRunner> runner,
                              CudaStepRunner::Create(*model_, limits_, incarnation, draft_source_));
    LOCKSTEP_RETURN_IF_ERROR(runner->CaptureGraphs());
    return runner;
  }

 private:
  const std::unique_ptr<CudaModel> model_;
  const ExecutorLimits limits_;
  const CudaDraftSource draft_source_;
};

}  // namespace

absl::Status CheckCudaDevice(const WorkerConfig& config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int> devices, config.CudaDevices());
  // CUDA may load a kernel at its first launch, and the launch may then wait for the device. On
  // that device another kernel may be waiting for this rank. So with several ranks all kernels are
  // loaded at the start. CUDA reads the variable at its first call, which follows.
  if (devices.size() > 1) setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  // A missing device of another rank is reported at loading. It is no reason to serve on the CPU.
  return kernels::DescribeCudaDevice(devices.front()).status();
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCudaBackend(const WorkerConfig& config,
                                                         LoadStageProgress progress) {
  LOCKSTEP_RETURN_IF_ERROR(config.ValidateOnCuda());
  ModelOptions options = config.model_options();
  LOCKSTEP_ASSIGN_OR_RETURN(options.rank_devices, config.CudaDevices());
  options.tensor_parallel = static_cast<uint32_t>(options.rank_devices.size());
  // Memory for decode graphs, and for kernels that are loaded when they first run.
  constexpr size_t kGraphBytes = size_t{1} << 30;
  options.reserved_bytes = [&config](const ModelPlan& plan) {
    return CudaStepMemory::DeviceBytes({.max_slots = config.max_slots,
                                        .max_logits_rows = config.max_logits_rows,
                                        .vocab_size = plan.vocab_size,
                                        .max_context_tokens = plan.max_context_tokens,
                                        .drafts = DraftsOf(config)}) +
           kGraphBytes;
  };
  options.progress = std::move(progress);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CudaModel> model, LoadCudaModel(config.model, options));
  const CudaDrafts drafts = DraftsOf(config);
  return std::make_unique<CudaBackend>(
      std::move(model),
      drafts.exist() ? config.executor_limits_with_drafts() : config.executor_limits(),
      drafts.source);
}

}  // namespace lockstep::worker
