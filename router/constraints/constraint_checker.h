#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/constraints/constraint.h"
#include "common/constraints/engine_process.h"
#include "common/model_files/tokenizer/vocabulary.h"
#include "common/runtime/mutex.h"
#include "router/constraints/constraint_metrics.h"
#include "router/constraints/constraint_verdicts.h"

namespace lockstep::router {

struct ConstraintCheckerConfig {
  ConstraintEngineConfig engine;
  uint32_t max_processes = 2;  // constraints that are compiled at the same time
};

// Decides whether the constraint of a request can be enforced, before the request waits or runs.
// Has engine processes of its own and remembers verdicts. Safe to use from any thread.
class ConstraintChecker {
 public:
  // Starts one process. `metrics` must outlive the checker.
  static absl::StatusOr<std::unique_ptr<ConstraintChecker>> Start(
      const ConstraintCheckerConfig& config, std::vector<VocabularyToken> vocabulary,
      const ConstraintMetrics& metrics);
  ~ConstraintChecker();

  // A worker enforces this router's constraints if its engine has this version.
  const std::string& version() const { return version_; }

  // Waits for the engine. INVALID_ARGUMENT "path: ..." if the constraint is beyond the limits, or
  // the engine refuses it, or it takes too much time or memory. UNAVAILABLE if no process becomes
  // free in time or can be started. `path` names the constraint's field.
  absl::Status Check(const Constraint& constraint, std::string_view path);

 private:
  using EnginePtr = std::unique_ptr<CagedConstraintEngine>;

  ConstraintChecker(const ConstraintCheckerConfig& config, std::vector<VocabularyToken> vocabulary,
                    const ConstraintMetrics& metrics);

  absl::Status CheckKnown(const Constraint& constraint);
  absl::Status Compile(const Constraint& constraint);
  absl::StatusOr<EnginePtr> Acquire();
  // `engine` may have ended: it is then started again. Null: it could not be started.
  void Release(EnginePtr engine);

  const ConstraintCheckerConfig config_;
  const std::vector<VocabularyToken> vocabulary_;
  const ConstraintMetrics& metrics_;
  std::string version_;
  Mutex mutex_;
  CondVar released_;
  std::vector<EnginePtr> idle_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_engines_ ABSL_GUARDED_BY(mutex_) = 0;  // idle, acquired, or about to start
  ConstraintVerdicts verdicts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
