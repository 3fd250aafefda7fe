#include "kernels/gemm/plan/cuda_gemm.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "common/status.h"
#include "kernels/gemm/packed_weights.h"
#include "kernels/gemm/plan/cublaslt_gemm.h"
#include "kernels/gemm/plan/gemm_trial.h"
#include "kernels/gemm/tile/gemm_launch.h"
#include "kernels/gemm/tile/gemm_row_ranges.h"

namespace lockstep::kernels {
namespace {

constexpr int kMaxTilings = 4;
constexpr int kMaxAlgorithms = 8;
#ifdef LOCKSTEP_PLANT_SPLIT_K
constexpr SplitK kSplitK = SplitK::kAllowed;
#else
constexpr SplitK kSplitK = SplitK::kNever;
#endif

// The shape of a product, with the end of its range of rows.
GemmShape RangeOf(const GemmParams& params, bool gated) {
  return {.n = params.weights.n,
          .k = params.weights.k,
          .has_bias = params.bias != nullptr,
          .f32_output = params.output_f32 != nullptr,
          .gated = gated,
          .max_rows = GemmRangeEnd(params.num_rows)};
}

// Expanded weights were written by the kernel before, so they must not be fetched before it has
// ended. A kernel may fetch other weights while its predecessor still runs.
CudaStream WithoutOverlap(const CudaStream& stream) {
  CudaStream result = stream;
  result.overlap_launches = false;
  return result;
}

GemmEpilogue Epilogue(bool gated) { return gated ? GemmEpilogue::kSwiGlu : GemmEpilogue::kPlain; }

}  // namespace

CudaGemm::CudaGemm() = default;
CudaGemm::~CudaGemm() = default;

absl::StatusOr<std::unique_ptr<CudaGemm>> CudaGemm::Create() {
  std::unique_ptr<CudaGemm> gemm(new CudaGemm);
  LOCKSTEP_ASSIGN_OR_RETURN(gemm->library_, CublasLtGemm::Create());
  return gemm;
}

absl::Status CudaGemm::Prepare(const CudaStream& stream, const GemmShape& shape) {
  if (shape.gated) {
    GemmShape product = shape;
    product.gated = false;
    LOCKSTEP_RETURN_IF_ERROR(Prepare(stream, product));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const GemmTrial trial, GemmTrial::Create(stream, shape));
  for (int64_t done = kMaxUnplannedRows; done < shape.max_rows; done = GemmRangeEnd(done + 1)) {
    LOCKSTEP_RETURN_IF_ERROR(
        PlanRows(stream, trial, std::min(GemmRangeEnd(done + 1), shape.max_rows)));
  }
  return CheckOwnKernel(stream, trial);
}

absl::Status CudaGemm::CheckOwnKernel(const CudaStream& stream, const GemmTrial& trial) const {
  const GemmShape& shape = trial.shape();
  const auto run = [&](const CudaStream& on, const GemmParams& params) {
    return shape.gated ? GemmSwiGlu(on, params) : Gemm(on, params);
  };
  // Each kernel that the rule for few rows chooses, and one with a plan.
  for (const int64_t num_rows : {int64_t{1}, int64_t{2}, int64_t{13}, int64_t{24}, int64_t{64},
                                 int64_t{100}, shape.max_rows}) {
    if (num_rows > shape.max_rows) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<GemmTrial::Difference> difference,
                              trial.FindDifference(stream, run, num_rows));
    if (difference.has_value()) {
      return Internal(
          "GEMM self-check: with n = {}, k = {} and {} rows, output {} of row {} is not that of "
          "the canonical dot product",
          shape.n, shape.k, num_rows, difference->column, difference->row);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GemmPlan>> CudaGemm::Candidates(const CudaStream& stream,
                                                           const GemmTrial& trial,
                                                           int64_t num_rows) const {
  const GemmShape& shape = trial.shape();
  std::vector<GemmPlan> candidates;
  for (const GemmTiling& tiling : CandidateGemmTilings(
           {.n = shape.n, .k = shape.k, .num_rows = num_rows, .gated = shape.gated},
           stream.num_multiprocessors, kMaxTilings)) {
    candidates.emplace_back(tiling);
  }
  if (shape.gated) return candidates;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<CublasLtPlan> algorithms,
      library_->FindPlans(trial.Params(num_rows, 0), kSplitK, kMaxAlgorithms));
  for (const CublasLtPlan& algorithm : algorithms) candidates.emplace_back(algorithm);
  return candidates;
}

absl::StatusOr<bool> CudaGemm::Conforms(const CudaStream& stream, const GemmTrial& trial,
                                        const GemmPlan& plan, int64_t num_rows) const {
  const GemmTrial::Implementation run = [&](const CudaStream& on, const GemmParams& params) {
    return RunPlan(on, params, plan, trial.shape().gated);
  };
  // An algorithm's work may depend on the number of rows: both ends of the range, and an odd number
  // between them.
  const int64_t first = GemmRangeBegin(num_rows);
  for (const int64_t rows : {num_rows, first, first + (num_rows - first) / 4 * 2}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<GemmTrial::Difference> difference,
                              trial.FindDifference(stream, run, rows));
    if (difference.has_value()) return false;
  }
  return true;
}

absl::Status CudaGemm::PlanRows(const CudaStream& stream, const GemmTrial& trial,
                                int64_t num_rows) {
  const bool gated = trial.shape().gated;
  const GemmShape key = RangeOf(trial.Params(num_rows, 0), gated);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<GemmPlan> candidates,
                            Candidates(stream, trial, num_rows));
  std::vector<GemmTrial::Implementation> implementations;
  for (const GemmPlan& plan : candidates) {
    implementations.push_back([this, &plan, gated](const CudaStream& on, const GemmParams& params) {
      return RunPlan(on, params, plan, gated);
    });
  }
  if (gated) {
    implementations.push_back([&](const CudaStream& on, const GemmParams& params) -> absl::Status {
      const GemmParams product = trial.ProductParams(params);
      LOCKSTEP_RETURN_IF_ERROR(Run(on, product));
      return SwiGlu(on, GemmTrial::SwiGluOf(product, params));
    });
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> milliseconds,
                            trial.Milliseconds(stream, implementations, num_rows));
  std::vector<size_t> order(milliseconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return milliseconds[a] < milliseconds[b]; });
  for (const size_t i : order) {
    if (i == candidates.size()) break;  // two kernels are faster
    LOCKSTEP_ASSIGN_OR_RETURN(const bool conforms,
                              Conforms(stream, trial, candidates[i], num_rows));
    if (conforms) {
      plans_.insert_or_assign(key, candidates[i]);
      break;
    }
    ++num_refused_plans_;
  }
  return absl::OkStatus();
}

absl::Status CudaGemm::RunPlan(const CudaStream& stream, const GemmParams& params,
                               const GemmPlan& plan, bool gated) const {
  if (const auto* const tiling = std::get_if<GemmTiling>(&plan)) {
    return LaunchGemm(stream, params, Epilogue(gated), *tiling);
  }
  return library_->Run(stream, params, std::get<CublasLtPlan>(plan));
}

const GemmPlan* CudaGemm::FindPlan(const GemmParams& params, bool gated) const {
  if (params.num_rows <= kMaxUnplannedRows) return nullptr;
  const auto plan = plans_.find(RangeOf(params, gated));
  return plan == plans_.end() ? nullptr : &plan->second;
}

absl::Status CudaGemm::ReserveExpansion(int64_t max_elements) {
  if (max_elements == 0) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(
      expansion_, DeviceBuffer::Create(static_cast<size_t>(max_elements) * sizeof(BFloat16),
                                       "expansion of packed weights"));
  return absl::OkStatus();
}

bool CudaGemm::StaysPacked(const GemmParams& params) const {
  if (params.weights.packed == nullptr) return false;
  if (!params.weights.packed->CanExpand()) return true;
  const auto expanded_bytes =
      static_cast<size_t>(params.weights.n * params.weights.k) * sizeof(BFloat16);
  return params.num_rows <= kMaxPackedRows || expanded_bytes > expansion_.num_bytes();
}

absl::StatusOr<GemmParams> CudaGemm::Expanded(const CudaStream& stream,
                                              const GemmParams& params) const {
  auto* const values = expansion_.data<BFloat16>();
  LOCKSTEP_RETURN_IF_ERROR(params.weights.packed->Expand(stream, values));
  GemmParams expanded = params;
  expanded.weights.data = values;
  expanded.weights.packed = nullptr;
  return expanded;
}

absl::Status CudaGemm::Run(const CudaStream& stream, const GemmParams& params) const {
  if (StaysPacked(params)) return params.weights.packed->Multiply(stream, params);
  if (params.weights.packed != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GemmParams expanded, Expanded(stream, params));
    return Run(WithoutOverlap(stream), expanded);
  }
  const GemmPlan* const plan = FindPlan(params, /*gated=*/false);
  if (plan == nullptr) return Gemm(stream, params);
  LOCKSTEP_RETURN_IF_ERROR(CheckGemmParams(params, GemmEpilogue::kPlain));
  return RunPlan(stream, params, *plan, /*gated=*/false);
}

absl::Status CudaGemm::RunGated(const CudaStream& stream, const GemmParams& gate_up,
                                const SwiGluParams& swiglu) const {
  GemmParams fused = gate_up;
  fused.output = swiglu.output;
  fused.output_stride = swiglu.size;
  if (StaysPacked(gate_up)) {
    const PackedWeights& packed = *gate_up.weights.packed;
    if (packed.HasSwiGlu()) return packed.MultiplySwiGlu(stream, fused);
    LOCKSTEP_RETURN_IF_ERROR(packed.Multiply(stream, gate_up));
    return SwiGlu(stream, swiglu);
  }
  if (gate_up.weights.packed != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GemmParams expanded, Expanded(stream, gate_up));
    return RunGated(WithoutOverlap(stream), expanded, swiglu);
  }
  if (gate_up.num_rows <= kGemmSwiGluMaxRows) return GemmSwiGlu(stream, fused);
  if (const GemmPlan* const plan = FindPlan(gate_up, /*gated=*/true)) {
    LOCKSTEP_RETURN_IF_ERROR(CheckGemmParams(fused, GemmEpilogue::kSwiGlu));
    return RunPlan(stream, fused, *plan, /*gated=*/true);
  }
  LOCKSTEP_RETURN_IF_ERROR(Run(stream, gate_up));
  return SwiGlu(stream, swiglu);
}

absl::Status CudaGemm::RunGelu(const CudaStream& stream, const GemmParams& product,
                               const GeluParams& gelu) const {
  if (product.weights.packed == nullptr && product.num_rows <= kGemmGeluMaxRows) {
    GemmParams fused = product;
    fused.output = gelu.output;
    fused.output_stride = gelu.size;
    return GemmGelu(stream, fused, gelu.form);
  }
  LOCKSTEP_RETURN_IF_ERROR(Run(stream, product));
  return Gelu(stream, gelu);
}

}  // namespace lockstep::kernels
