#include "router/constraints/constraint_checker.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "router/constraints/constraint_limits.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxVerdicts = 4096;
constexpr size_t kMaxVerdictBytes = 16 << 20;
// A request may meet one engine that ended earlier, but not two in a row.
constexpr int kAttempts = 2;

}  // namespace

ConstraintChecker::ConstraintChecker(const ConstraintCheckerConfig& config,
                                     std::vector<VocabularyToken> vocabulary,
                                     const ConstraintMetrics& metrics)
    : config_(config),
      vocabulary_(std::move(vocabulary)),
      metrics_(metrics),
      verdicts_(kMaxVerdicts, kMaxVerdictBytes) {}

ConstraintChecker::~ConstraintChecker() = default;

absl::StatusOr<std::unique_ptr<ConstraintChecker>> ConstraintChecker::Start(
    const ConstraintCheckerConfig& config, std::vector<VocabularyToken> vocabulary,
    const ConstraintMetrics& metrics) {
  std::unique_ptr<ConstraintChecker> checker(
      new ConstraintChecker(config, std::move(vocabulary), metrics));
  LOCKSTEP_ASSIGN_OR_RETURN(EnginePtr engine, checker->Acquire());
  checker->version_ = engine->version();
  checker->Release(std::move(engine));
  return checker;
}

absl::Status ConstraintChecker::Check(const Constraint& constraint, std::string_view path) {
  absl::Status status = CheckConstraintLimits(constraint, path);
  if (status.ok()) status = Annotate(CheckKnown(constraint), path);
  if (status.ok()) metrics_.accepted_total->Increment();
  if (absl::IsInvalidArgument(status)) metrics_.refused_total->Increment();
  return status;
}

absl::Status ConstraintChecker::CheckKnown(const Constraint& constraint) {
  {
    MutexLock lock(mutex_);
    if (const std::optional<absl::Status> known = verdicts_.Find(constraint)) return *known;
  }
  const auto start = std::chrono::steady_clock::now();
  const absl::Status verdict = Compile(constraint);
  if (absl::IsUnavailable(verdict)) return verdict;
  metrics_.compile_seconds->Observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  MutexLock lock(mutex_);
  verdicts_.Add(constraint, verdict);
  return verdict;
}

absl::Status ConstraintChecker::Compile(const Constraint& constraint) {
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    LOCKSTEP_ASSIGN_OR_RETURN(EnginePtr engine, Acquire());
    status = engine->Check(constraint);
    Release(std::move(engine));
    if (!absl::IsUnavailable(status)) break;
  }
  // What ends the engine cannot be enforced.
  return absl::IsAborted(status) ? absl::InvalidArgumentError(status.message()) : status;
}

absl::StatusOr<ConstraintChecker::EnginePtr> ConstraintChecker::Acquire() {
  {
    MutexLock lock(mutex_);
    // Every engine is given back within this time, even if it has to be started again.
    const auto longest = absl::ToChronoNanoseconds(
        kWallFactor * (config_.engine.job_time + config_.engine.load_time));
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (idle_.empty() && num_engines_ == config_.max_processes) {
      if (!WaitUntil(mutex_, released_, deadline)) {
        return Unavailable("all constraint engines are busy");
      }
    }
    if (!idle_.empty()) {
      EnginePtr engine = std::move(idle_.back());
      idle_.pop_back();
      return engine;
    }
    ++num_engines_;
  }
  absl::StatusOr<EnginePtr> started = CagedConstraintEngine::Start(config_.engine, vocabulary_);
  if (!started.ok()) Release(nullptr);
  return started;
}

void ConstraintChecker::Release(EnginePtr engine) {
  if (engine != nullptr && engine->pid() < 0) {
    metrics_.restarts_total->Increment();
    if (const absl::Status status = engine->Restart(); !status.ok()) {
      spdlog::warn("a constraint engine cannot be started again: {}", Message(status));
      engine.reset();
    }
  }
  MutexLock lock(mutex_);
  if (engine == nullptr) {
    --num_engines_;
  } else {
    idle_.push_back(std::move(engine));
  }
  released_.NotifyOne();
}

}  // namespace lockstep::router
