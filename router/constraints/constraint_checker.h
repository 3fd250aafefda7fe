#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/constraints/constraint.h"
#include "common/constraints/engine_process.h"
#include "common/model_files/tokenizer/vocabulary.h"
#include "common/runtime/cancel_flag.h"
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

  // Waits for the engine, or for the verdict of another caller with the same constraint.
  // INVALID_ARGUMENT "path: ..." if the constraint is beyond the limits, or the engine refuses it,
  // or it takes too much time or memory. UNAVAILABLE if no process becomes free in time or can be
  // started, or if the machine is too busy. CANCELLED soon after `cancellation`, which may be null;
  // but once an engine compiles for this caller, it does so to the end. `path` names the
  // constraint's field.
  absl::Status Check(const Constraint& constraint, std::string_view path,
                     const CancelFlag* cancellation = nullptr);

  // Constraints without a verdict that callers compile now, or want to compile.
  size_t num_open() const;
  // Callers that wait for an engine, or for the verdict of another caller.
  size_t num_waiting() const;

 private:
  using EnginePtr = std::unique_ptr<CagedConstraintEngine>;
  // A constraint that one caller compiles. Others wait for its verdict.
  struct Compilation {
    const Constraint* constraint;         // of that caller; valid while the verdict is open
    std::optional<absl::Status> verdict;  // CANCELLED: that caller gave up
  };
  struct Outcome {
    absl::Status verdict;
    bool lasts = false;  // follows from the constraint alone
  };

  ConstraintChecker(const ConstraintCheckerConfig& config, std::vector<VocabularyToken> vocabulary,
                    const ConstraintMetrics& metrics);

  std::optional<absl::Status> FindVerdict(const Constraint& constraint);
  absl::Status MakeVerdict(const Constraint& constraint, const CancelFlag* cancellation);
  // The verdict of another caller. nullopt: `own` is the constraint's open compilation now.
  std::optional<absl::Status> Join(const std::shared_ptr<Compilation>& own,
                                   const CancelFlag* cancellation);
  // `engine` may have ended afterwards. Null: it ended and could not be started again.
  Outcome Compile(const Constraint& constraint, const CancelFlag* cancellation, EnginePtr& engine);
  absl::StatusOr<EnginePtr> Acquire(const CancelFlag* cancellation);
  void WaitFor(CondVar& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts an engine that has ended again. Null: it could not be started.
  void Revive(EnginePtr& engine);
  // Null: it could not be started.
  void Release(EnginePtr engine);

  const ConstraintCheckerConfig config_;
  const std::vector<VocabularyToken> vocabulary_;
  const ConstraintMetrics& metrics_;
  std::string version_;
  mutable Mutex mutex_;
  CondVar released_;
  CondVar decided_;
  std::vector<EnginePtr> idle_ ABSL_GUARDED_BY(mutex_);
  uint32_t num_engines_ ABSL_GUARDED_BY(mutex_) = 0;  // idle, acquired, or about to start
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  ConstraintVerdicts verdicts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Compilation>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
