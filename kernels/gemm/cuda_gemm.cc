#include "kernels/gemm/cuda_gemm.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/status.h"
#include "kernels/gemm/cublaslt_gemm.h"
#include "kernels/gemm/gemm_launch.h"
#include "kernels/gemm/gemm_trial.h"

namespace lockstep::kernels {
namespace {

// Up to here our kernel is limited by memory, and launches of it overlap, which those of cuBLASLt
// do not; beyond, each range of rows is timed.
constexpr int64_t kOwnRows = 64;
constexpr int kMaxCandidates = 8;
#ifdef LOCKSTEP_PLANT_SPLIT_K
constexpr SplitK kSplitK = SplitK::kAllowed;
#else
constexpr SplitK kSplitK = SplitK::kNever;
#endif

// Plans are kept for (kOwnRows, 2 kOwnRows], (2 kOwnRows, 4 kOwnRows], ...: the upper end.
int64_t RangeEnd(int64_t num_rows) {
  int64_t end = 2 * kOwnRows;
  while (end < num_rows) end *= 2;
  return end;
}

// The overload for CudaStream.
absl::Status RunOwn(const CudaStream& stream, const GemmParams& params) {
  return Gemm(stream, params);
}

}  // namespace

struct CudaGemm::Trial {
  GemmShape shape;
  GemmTrial operands;
};

CudaGemm::CudaGemm() = default;
CudaGemm::~CudaGemm() = default;

absl::StatusOr<std::unique_ptr<CudaGemm>> CudaGemm::Create() {
  std::unique_ptr<CudaGemm> gemm(new CudaGemm);
  LOCKSTEP_ASSIGN_OR_RETURN(gemm->library_, CublasLtGemm::Create());
  return gemm;
}

absl::Status CudaGemm::Prepare(const CudaStream& stream, const GemmShape& shape) {
  LOCKSTEP_ASSIGN_OR_RETURN(GemmTrial operands, GemmTrial::Create(stream, shape));
  const Trial trial = {.shape = shape, .operands = std::move(operands)};
  for (int64_t first = kOwnRows; first < shape.max_rows; first *= 2) {
    LOCKSTEP_RETURN_IF_ERROR(PlanRows(stream, trial, std::min(2 * first, shape.max_rows)));
  }
  return CheckOwnKernel(stream, trial);
}

absl::Status CudaGemm::CheckOwnKernel(const CudaStream& stream, const Trial& trial) const {
  for (const int64_t num_rows :
       {int64_t{1}, int64_t{2}, int64_t{13}, int64_t{64}, int64_t{100}, trial.shape.max_rows}) {
    if (num_rows > trial.shape.max_rows) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<GemmTrial::Difference> difference,
                              trial.operands.FindDifference(stream, RunOwn, num_rows));
    if (difference.has_value()) {
      return Internal(
          "GEMM self-check: with n = {}, k = {} and {} rows, output {} of row {} is not that of "
          "the "
          "canonical dot product",
          trial.shape.n, trial.shape.k, num_rows, difference->column, difference->row);
    }
  }
  return absl::OkStatus();
}

absl::Status CudaGemm::PlanRows(const CudaStream& stream, const Trial& trial, int64_t num_rows) {
  GemmShape key = trial.shape;
  key.max_rows = RangeEnd(num_rows);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<CublasLtPlan> candidates,
      library_->FindPlans(trial.operands.Params(num_rows), kSplitK, kMaxCandidates));
  LOCKSTEP_ASSIGN_OR_RETURN(float fastest_ms,
                            trial.operands.Milliseconds(stream, RunOwn, num_rows));
  // An algorithm's work may depend on the number of rows: both ends of the range, and odd ones.
  const std::array<int64_t, 3> checked_rows = {num_rows,
                                               std::max(num_rows * 3 / 4 - 1, kOwnRows + 1),
                                               std::min(key.max_rows / 2 + 1, num_rows)};
  for (const CublasLtPlan& plan : candidates) {
    const GemmTrial::Implementation run = [&](const CudaStream& on, const GemmParams& params) {
      return library_->Run(on, params, plan);
    };
    bool conforms = true;
    for (const int64_t rows : checked_rows) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<GemmTrial::Difference> difference,
                                trial.operands.FindDifference(stream, run, rows));
      conforms = conforms && !difference.has_value();
    }
    if (!conforms) {
      ++num_refused_plans_;
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const float elapsed_ms,
                              trial.operands.Milliseconds(stream, run, num_rows));
    if (elapsed_ms < fastest_ms) {
      fastest_ms = elapsed_ms;
      plans_.insert_or_assign(key, plan);
    }
  }
  return absl::OkStatus();
}

absl::Status CudaGemm::Run(const CudaStream& stream, const GemmParams& params) const {
  if (params.num_rows > kOwnRows) {
    const auto plan = plans_.find({.n = params.weights.n,
                                   .k = params.weights.k,
                                   .has_bias = params.bias != nullptr,
                                   .f32_output = params.output_f32 != nullptr,
                                   .max_rows = RangeEnd(params.num_rows)});
    if (plan != plans_.end()) {
      LOCKSTEP_RETURN_IF_ERROR(CheckGemmParams(params, GemmEpilogue::kPlain));
      return library_->Run(stream, params, plan->second);
    }
  }
  return Gemm(stream, params);
}

}  // namespace lockstep::kernels
