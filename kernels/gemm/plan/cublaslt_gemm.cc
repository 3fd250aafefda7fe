#include "kernels/gemm/plan/cublaslt_gemm.h"

#include <cstdint>

#include "common/status.h"

namespace lockstep::kernels {
namespace {

// What NVIDIA recommends for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// The heuristics mix algorithms that split K among the others: ask for many, keep the first few.
constexpr int kNumProposals = 64;

absl::Status CublasStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return Internal("{}: {}", call, cublasLtGetStatusString(status));
}

#define LOCKSTEP_RETURN_IF_CUBLAS_ERROR(call) LOCKSTEP_RETURN_IF_ERROR(CublasStatus((call), #call))

// The product as cuBLASLt sees it, all its descriptions on the stack: column-major output
// [n, num_rows] = transpose(weights [k, n]) * input [k, num_rows].
struct Description {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t weights;
  cublasLtMatrixLayoutOpaque_t input;
  cublasLtMatrixLayoutOpaque_t output;
};

absl::Status Describe(const GemmParams& params, Description* description) {
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatmulDescInit(&description->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return CublasStatus(
        cublasLtMatmulDescSetAttribute(&description->product, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  };
  LOCKSTEP_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (params.bias != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    LOCKSTEP_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, params.bias));
    LOCKSTEP_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F));
  }
  const uint64_t n = static_cast<uint64_t>(params.weights.n);
  const uint64_t k = static_cast<uint64_t>(params.weights.k);
  const uint64_t num_rows = static_cast<uint64_t>(params.num_rows);
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatrixLayoutInit(&description->weights, CUDA_R_16BF, k, n, params.weights.k));
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatrixLayoutInit(&description->input, CUDA_R_16BF, k, num_rows, params.input_stride));
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutInit(
      &description->output, params.output != nullptr ? CUDA_R_16BF : CUDA_R_32F, n, num_rows,
      params.output_stride));
  return absl::OkStatus();
}

absl::Status SplitsK(const cublasLtMatmulAlgo_t& algorithm, bool* splits_k) {
  int32_t num_splits = 0;
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written = 0;
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &num_splits, sizeof(num_splits), &written));
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof(reduction), &written));
  *splits_k = num_splits != 1 || reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
  return absl::OkStatus();
}

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CublasLtGemm>> CublasLtGemm::Create() {
  std::unique_ptr<CublasLtGemm> gemm(new CublasLtGemm);
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtCreate(&gemm->handle_));
  LOCKSTEP_ASSIGN_OR_RETURN(gemm->workspace_,
                            DeviceBuffer::Create(kWorkspaceBytes, "workspace of cuBLASLt"));
  return gemm;
}

CublasLtGemm::~CublasLtGemm() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

absl::StatusOr<std::vector<CublasLtPlan>> CublasLtGemm::FindPlans(const GemmParams& params,
                                                                  SplitK split_k,
                                                                  int max_plans) const {
  Description description;
  LOCKSTEP_RETURN_IF_ERROR(Describe(params, &description));
  cublasLtMatmulPreference_t created = nullptr;
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceCreate(&created));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference> preference(created);
  const uint64_t workspace_bytes = workspace_.num_bytes();
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(
      cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &workspace_bytes, sizeof(workspace_bytes)));
  if (split_k == SplitK::kNever) {
    const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceSetAttribute(
        created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction, sizeof(no_reduction)));
  }

  std::vector<cublasLtMatmulHeuristicResult_t> proposals(kNumProposals);
  int num_proposals = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &description.product, &description.weights, &description.input, &description.output,
      &description.output, created, kNumProposals, proposals.data(), &num_proposals);
  std::vector<CublasLtPlan> plans;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return plans;
  LOCKSTEP_RETURN_IF_ERROR(CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  proposals.resize(static_cast<size_t>(num_proposals));
  for (const cublasLtMatmulHeuristicResult_t& proposal : proposals) {
    if (proposal.state != CUBLAS_STATUS_SUCCESS || static_cast<int>(plans.size()) == max_plans) {
      continue;
    }
    CublasLtPlan plan = {.algorithm = proposal.algo};
    LOCKSTEP_RETURN_IF_ERROR(SplitsK(plan.algorithm, &plan.splits_k));
    if (split_k == SplitK::kAllowed || !plan.splits_k) plans.push_back(plan);
  }
  return plans;
}

absl::Status CublasLtGemm::Run(const CudaStream& stream, const GemmParams& params,
                               const CublasLtPlan& plan) const {
  Description description;
  LOCKSTEP_RETURN_IF_ERROR(Describe(params, &description));
  const float one = 1.0f;
  const float zero = 0.0f;
  void* output = params.output != nullptr ? static_cast<void*>(params.output) : params.output_f32;
  LOCKSTEP_RETURN_IF_CUBLAS_ERROR(cublasLtMatmul(
      handle_, &description.product, &one, params.weights.data, &description.weights, params.input,
      &description.input, &zero, output, &description.output, output, &description.output,
      &plan.algorithm, workspace_.data(), workspace_.num_bytes(), stream.handle));
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
