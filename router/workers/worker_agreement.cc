#include "router/workers/worker_agreement.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/status.h"

namespace lockstep::router {
namespace {

void Compare(std::string_view field, uint64_t expected, std::string_view whose, uint64_t got,
             std::string& differences) {
  if (expected == got) return;
  differences += fmt::format("{}{}: expected {:016x} ({}), got {:016x}",
                             differences.empty() ? "" : "; ", field, expected, whose, got);
}

}  // namespace

absl::Status WorkerAgreement::Check(const WorkerBits& bits) const {
  MutexLock lock(mutex_);
  return CheckLocked(bits);
}

absl::StatusOr<WorkerAgreement::Membership> WorkerAgreement::Join(const WorkerBits& bits) {
  MutexLock lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckLocked(bits));
  if (num_ready_++ == 0) reference_ = bits;
  return Membership(this);
}

absl::Status WorkerAgreement::CheckLocked(const WorkerBits& bits) const {
  constexpr std::string_view kOthers = "of the workers that are ready";
  std::string differences;
  const bool compare_all = num_ready_ > 0 && !config_.allow_mixed;
  if (config_.weights_fingerprint.has_value()) {
    Compare("weights_fingerprint", *config_.weights_fingerprint, "of --weights-fingerprint",
            bits.weights_fingerprint, differences);
  } else if (compare_all) {
    Compare("weights_fingerprint", reference_.weights_fingerprint, kOthers,
            bits.weights_fingerprint, differences);
  }
  if (compare_all) {
    Compare("numerics_id", reference_.numerics_id, kOthers, bits.numerics_id, differences);
  }
  if (differences.empty()) return absl::OkStatus();
  return FailedPrecondition("the worker computes something else than this router serves: {}",
                            differences);
}

void WorkerAgreement::Leave() {
  MutexLock lock(mutex_);
  --num_ready_;
}

}  // namespace lockstep::router
