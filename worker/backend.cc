#include "worker/backend.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "common/model_files/tokenizer/vocabulary.h"
#include "common/program_path.h"
#include "common/status.h"
#include "worker/cpu/load_model.h"
#include "worker/cpu/step_runner.h"
#include "worker/drafters/ngram_drafter.h"
#include "worker/steps/drafter.h"

namespace lockstep::worker {
namespace {

class CpuBackend final : public Backend {
 public:
  // `drafter`: null if it drafts nothing. `constraints`: null if they are refused.
  CpuBackend(std::unique_ptr<ForwardModel> model, const ExecutorLimits& limits,
             std::unique_ptr<Drafter> drafter, std::unique_ptr<ConstraintEngine> constraints)
      : model_(std::move(model)),
        limits_(limits),
        drafter_(std::move(drafter)),
        constraints_(std::move(constraints)) {}

  const ForwardModelInfo& info() const override { return model_->info(); }
  absl::StatusOr<std::unique_ptr<StepRunner>> MakeRunner(uint64_t incarnation) override {
    return std::make_unique<CpuStepRunner>(*model_, limits_, incarnation, drafter_.get(),
                                           constraints_.get());
  }

 private:
  const std::unique_ptr<ForwardModel> model_;
  const ExecutorLimits limits_;
  const std::unique_ptr<Drafter> drafter_;
  const std::unique_ptr<ConstraintEngine> constraints_;
};

// Null if there is no llguidance.
absl::StatusOr<std::unique_ptr<ConstraintEngine>> StartConstraintEngine(const WorkerConfig& config,
                                                                        uint32_t vocab_size) {
  ConstraintEngineConfig engine = config.constraints;
  LOCKSTEP_ASSIGN_OR_RETURN(engine.program, PathBesideProgram("lockstep-constraint-engine"));
  LOCKSTEP_ASSIGN_OR_RETURN(engine.packages,
                            FindConstraintPackages(config.constraint_packages, engine.program));
  if (engine.packages.empty()) return nullptr;
  absl::StatusOr<std::vector<VocabularyToken>> vocabulary =
      LoadVocabulary(config.model, vocab_size);
  absl::Status status = vocabulary.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<CagedConstraintEngine>> started =
        CagedConstraintEngine::Start(engine, *vocabulary);
    if (started.ok()) {
      spdlog::info("constraints are enforced by {}", (*started)->version());
      return std::unique_ptr<ConstraintEngine>(*std::move(started));
    }
    status = started.status();
  }
  // If the operator named a folder, the program must not start without constraints.
  if (config.constraint_packages != "auto") return status;
  spdlog::warn("constraints are refused: {}", Message(status));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenCpuBackend(const WorkerConfig& config,
                                                        LoadStageProgress progress) {
  ModelOptions options = config.model_options();
  options.progress = std::move(progress);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ForwardModel> model,
                            LoadCpuModel(config.model, options));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ConstraintEngine> constraints,
                            StartConstraintEngine(config, model->info().vocab_size));
  const bool drafts = config.drafts(/*by_default=*/true);
  return std::make_unique<CpuBackend>(
      std::move(model), drafts ? config.executor_limits_with_drafts() : config.executor_limits(),
      drafts ? std::make_unique<NgramDrafter>() : nullptr, std::move(constraints));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const WorkerConfig& config,
                                                     LoadStageProgress progress) {
  if (config.device != "cpu") {
    const absl::Status first_device = CheckCudaDevice(config);
    LOCKSTEP_ASSIGN_OR_RETURN(const bool on_cuda, config.ServesOnCuda(first_device));
    if (on_cuda && config.constraint_packages != "auto" && config.constraint_packages != "off") {
      return Unimplemented(
          "--constraint-packages: constraints are enforced on the CPU only so far");
    }
    if (on_cuda) return OpenCudaBackend(config.For(kGpuDefaults), std::move(progress));
    spdlog::info("serving on the CPU: {}", Message(first_device));
  }
  return OpenCpuBackend(config.For(kCpuDefaults), std::move(progress));
}

}  // namespace lockstep::worker
