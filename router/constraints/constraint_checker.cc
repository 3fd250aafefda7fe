#include "router/constraints/constraint_checker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/status.h"
#include "router/constraints/constraint_limits.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxVerdicts = 4096;
constexpr size_t kMaxVerdictBytes = 16 << 20;
// How often a caller that waits looks whether its client is gone.
constexpr std::chrono::milliseconds kCancellationCheck(10);

bool HasEnded(const CagedConstraintEngine& engine) { return engine.pid() < 0; }

absl::Status Cancelled() { return absl::CancelledError("the client cancelled the call"); }

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
  LOCKSTEP_ASSIGN_OR_RETURN(EnginePtr engine, checker->Acquire(/*cancellation=*/nullptr));
  checker->version_ = engine->version();
  checker->Release(std::move(engine));
  return checker;
}

absl::Status ConstraintChecker::Check(const Constraint& constraint, std::string_view path,
                                      const CancelFlag* cancellation) {
  absl::Status status;
  if (const std::optional<absl::Status> known = FindVerdict(constraint)) {
    status = Annotate(*known, path);
  } else {
    status = CheckConstraintLimits(constraint, path);
    if (status.ok()) status = Annotate(MakeVerdict(constraint, cancellation), path);
  }
  if (status.ok()) metrics_.accepted_total->Increment();
  if (absl::IsInvalidArgument(status)) metrics_.refused_total->Increment();
  return status;
}

size_t ConstraintChecker::num_open() const {
  MutexLock lock(mutex_);
  return open_.size();
}

size_t ConstraintChecker::num_waiting() const {
  MutexLock lock(mutex_);
  return num_waiting_;
}

std::optional<absl::Status> ConstraintChecker::FindVerdict(const Constraint& constraint) {
  MutexLock lock(mutex_);
  return verdicts_.Find(constraint);
}

absl::Status ConstraintChecker::MakeVerdict(const Constraint& constraint,
                                            const CancelFlag* cancellation) {
  const auto own = std::make_shared<Compilation>(Compilation{&constraint, std::nullopt});
  if (const std::optional<absl::Status> verdict = Join(own, cancellation)) return *verdict;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<EnginePtr> engine = Acquire(cancellation);
  const Outcome outcome = engine.ok() ? Compile(constraint, cancellation, *engine)
                                      : Outcome{.verdict = engine.status()};
  if (outcome.lasts) {
    metrics_.compile_seconds->Observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  {
    MutexLock lock(mutex_);
    if (outcome.lasts) verdicts_.Add(constraint, outcome.verdict);
    own->verdict = OwnCopy(outcome.verdict);
    std::erase(open_, own);
    decided_.NotifyAll();
  }
  // This may start the engine again, and the callers that wait for the verdict need none.
  if (engine.ok()) Release(*std::move(engine));
  return outcome.verdict;
}

std::optional<absl::Status> ConstraintChecker::Join(const std::shared_ptr<Compilation>& own,
                                                    const CancelFlag* cancellation) {
  MutexLock lock(mutex_);
  for (;;) {
    // Another caller may have come to a verdict since the last look.
    if (std::optional<absl::Status> known = verdicts_.Find(*own->constraint)) return known;
    const auto found = std::ranges::find_if(
        open_, [&](const auto& other) { return *other->constraint == *own->constraint; });
    if (found == open_.end()) {
      open_.push_back(own);
      return std::nullopt;
    }
    // Of its own, because open_ changes while this waits.
    const auto other = std::shared_ptr<Compilation>(*found);
    while (!other->verdict.has_value()) {
      if (IsCancelled(cancellation)) return Cancelled();
      WaitFor(decided_);
    }
    if (!absl::IsCancelled(*other->verdict)) return OwnCopy(*other->verdict);
  }
}

ConstraintChecker::Outcome ConstraintChecker::Compile(const Constraint& constraint,
                                                      const CancelFlag* cancellation,
                                                      EnginePtr& engine) {
  using Cause = CagedConstraintEngine::Cause;
  if (IsCancelled(cancellation)) return {.verdict = Cancelled()};
  absl::Status status = engine->Check(constraint);
  if (HasEnded(*engine) && engine->cause() == Cause::kProcess) {
    Revive(engine);
    if (engine == nullptr) {
      return {.verdict = Unavailable("the constraint engine cannot be started again")};
    }
    if (IsCancelled(cancellation)) return {.verdict = Cancelled()};
    status = engine->Check(constraint);
  }
  if (!HasEnded(*engine) || engine->cause() == Cause::kJob) {
    // What ends the engine cannot be enforced.
    if (absl::IsAborted(status)) status = absl::InvalidArgumentError(status.message());
    return {.verdict = status, .lasts = true};
  }
  if (absl::IsUnavailable(status)) return {.verdict = status};
  return {.verdict = Unavailable("the machine is too busy to check it: {}", Message(status))};
}

absl::StatusOr<ConstraintChecker::EnginePtr> ConstraintChecker::Acquire(
    const CancelFlag* cancellation) {
  {
    MutexLock lock(mutex_);
    // The longest time that a caller has an engine: it may need two jobs, each with a new start.
    const auto longest = absl::ToChronoNanoseconds(
        2 * kWallFactor * (config_.engine.job_time + config_.engine.load_time));
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (idle_.empty() && num_engines_ == config_.max_processes) {
      if (IsCancelled(cancellation)) return Cancelled();
      if (std::chrono::steady_clock::now() >= deadline) {
        return Unavailable("all constraint engines are busy");
      }
      WaitFor(released_);
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

void ConstraintChecker::WaitFor(CondVar& change) {
  ++num_waiting_;
  change.WaitFor(mutex_, kCancellationCheck);
  --num_waiting_;
}

void ConstraintChecker::Revive(EnginePtr& engine) {
  if (engine == nullptr || !HasEnded(*engine)) return;
  metrics_.restarts_total->Increment();
  if (const absl::Status status = engine->Restart(); !status.ok()) {
    spdlog::warn("a constraint engine cannot be started again: {}", Message(status));
    engine.reset();
  }
}

void ConstraintChecker::Release(EnginePtr engine) {
  Revive(engine);
  MutexLock lock(mutex_);
  if (engine == nullptr) {
    --num_engines_;
  } else {
    idle_.push_back(std::move(engine));
  }
  released_.NotifyOne();
}

}  // namespace lockstep::router
