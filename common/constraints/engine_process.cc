#include "common/constraints/engine_process.h"

#include <absl/time/time.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/constraints/engine_frames.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep {
namespace {

constexpr std::string_view kLibrary =
    "llguidance 1.9, which constraints need: deploy/fetch-llguidance fetches it";
// The other sequences of a step wait for a mask.
constexpr absl::Duration kMaskTime = absl::Milliseconds(500);
constexpr std::string_view kSystemPackages = "/usr/lib/python3/dist-packages";

bool HasLibrary(const std::filesystem::path& packages) {
  std::error_code error;
  return std::filesystem::is_directory(packages / "llguidance", error);
}

}  // namespace

absl::Status ConstraintEngineConfig::Validate() const {
  Violations violations;
  violations.Require(python.starts_with('/'), "constraint_python: must be an absolute path");
  violations.Require(job_time >= absl::Milliseconds(1) && job_time <= absl::Minutes(1),
                     "constraint_timeout: must be from 1ms to 1m");
  violations.Require(memory_mib >= 256 && memory_mib <= 1u << 20,
                     "constraint_memory_mib: must be from 256 to 1048576 MiB");
  return violations.ToStatus();
}

CagedConstraintEngine::CagedConstraintEngine(const ConstraintEngineConfig& config,
                                             PythonProgram program, std::string vocabulary_frame,
                                             uint32_t vocab_size)
    : config_(config),
      program_(std::move(program)),
      vocabulary_frame_(std::move(vocabulary_frame)),
      vocab_size_(vocab_size) {}

absl::StatusOr<std::unique_ptr<CagedConstraintEngine>> CagedConstraintEngine::Start(
    const ConstraintEngineConfig& config, std::span<const VocabularyToken> vocabulary) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(
      PythonProgram program,
      PythonProgram::Open(config.program, config.python, "the constraint engine"));
  std::unique_ptr<CagedConstraintEngine> engine(
      new CagedConstraintEngine(config, std::move(program), VocabularyFrame(vocabulary),
                                static_cast<uint32_t>(vocabulary.size())));
  LOCKSTEP_RETURN_IF_ERROR(engine->Restart());
  return engine;
}

absl::Status CagedConstraintEngine::Restart() {
  End(Cause::kProcess);
  const auto seconds =
      static_cast<uint32_t>(absl::ToInt64Seconds(std::max(config_.job_time, config_.load_time)));
  LOCKSTEP_ASSIGN_OR_RETURN(process_,
                            CagedProcess::Start(program_, {.memory_mib = config_.memory_mib,
                                                           .cpu_seconds = seconds + 2,
                                                           .packages = config_.packages}));
  absl::StatusOr<std::string_view> version = Ask(vocabulary_frame_, config_.load_time);
  if (!version.ok()) {
    End(Cause::kProcess);
    return absl::UnavailableError(version.status().message());
  }
  if (!version_.empty() && *version != version_) {
    End(Cause::kProcess);
    return Unavailable("the constraint engine is now {}, and was {}", *version, version_);
  }
  version_ = *version;
  is_fresh_ = true;
  return absl::OkStatus();
}

absl::Status CagedConstraintEngine::ErrorOf(CagedEnd end, absl::Duration limit) const {
  const auto aborted = [](std::string text) { return absl::AbortedError(text); };
  switch (end) {
    case CagedEnd::kTime:
      return aborted(fmt::format("it takes more than {}", absl::FormatDuration(limit)));
    case CagedEnd::kMemory:
      return aborted(fmt::format("it needs more than {} MiB", config_.memory_mib));
    case CagedEnd::kCrash:
      return aborted("it made the constraint engine crash");
    case CagedEnd::kGone:
      break;
  }
  return absl::UnavailableError(WhyGone(process_->exit_code(), program_, kLibrary));
}

absl::StatusOr<std::string_view> CagedConstraintEngine::Ask(std::string_view frame,
                                                            absl::Duration limit) {
  if (process_ == nullptr) return Unavailable("the constraint engine has ended");
  CagedProcess::Reply reply = process_->Exchange(frame, limit, MaxEngineAnswerBytes(vocab_size_));
  const bool was_fresh = std::exchange(is_fresh_, false);
  if (!reply.end) {
    payload_ = std::move(reply.payload);
    absl::StatusOr<std::string_view> answer = ParseEngineAnswer(payload_);
    if (!absl::IsInternal(answer.status())) return answer;
    reply.end = process_->Distrust();
  }
  absl::Status error = ErrorOf(*reply.end, limit);
  if (reply.end == CagedEnd::kTime) {
    End(reply.stalled ? Cause::kMachine : Cause::kJob);
  } else {
    End(was_fresh && reply.end != CagedEnd::kGone ? Cause::kJob : Cause::kProcess);
  }
  return error;
}

void CagedConstraintEngine::End(Cause cause) {
  cause_ = cause;
  process_.reset();
}

absl::Status CagedConstraintEngine::Check(const Constraint& constraint) {
  return Ask(CheckFrame(constraint), config_.job_time).status();
}

absl::Status CagedConstraintEngine::Begin(SlotId slot, const Constraint& constraint,
                                          std::span<const TokenId> end_ids,
                                          std::span<const TokenId> tokens) {
  return Ask(BeginFrame(slot, constraint, end_ids, tokens), config_.job_time).status();
}

absl::Status CagedConstraintEngine::Mask(SlotId slot, std::span<const TokenId> tokens,
                                         TokenMask& mask) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view text,
                            Ask(MaskFrame(slot, tokens), std::min(config_.job_time, kMaskTime)));
  absl::Status status = ParseMask(text, vocab_size_, mask);
  if (status.ok()) return status;
  End(Cause::kProcess);
  return absl::AbortedError(status.message());
}

absl::Status CagedConstraintEngine::Release(SlotId slot) {
  return Ask(ReleaseFrame(slot), config_.job_time).status();
}

absl::StatusOr<std::string> FindConstraintPackages(const std::string& wanted,
                                                   const std::string& program) {
  if (wanted == "off") return std::string();
  if (wanted != "auto") {
    if (HasLibrary(wanted)) return std::filesystem::absolute(wanted).string();
    return NotFound("--constraint-packages: {} has no Python package llguidance", wanted);
  }
  // A wheel has the program in site-packages/lockstep/bin.
  const std::filesystem::path wheel = std::filesystem::path(program).parent_path().parent_path();
  std::error_code error;
  if (std::filesystem::is_regular_file(wheel / "commands.py", error) &&
      HasLibrary(wheel.parent_path())) {
    return wheel.parent_path().string();
  }
  return HasLibrary(kSystemPackages) ? std::string(kSystemPackages) : std::string();
}

}  // namespace lockstep
