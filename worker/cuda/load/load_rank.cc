#include "worker/cuda/load/load_rank.h"

#include <cuda_runtime_api.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/formats/fp8_activations/fp8_weights.h"
#include "kernels/formats/strips/strip_weights.h"
#include "kernels/gemm/plan/packed_check.h"
#include "kernels/rope/rope_table.h"
#include "worker/cuda/load/upload_weights.h"
#include "worker/model/numerics_probe.h"
#include "worker/model/rotation.h"
#include "worker/model/weights/pack_weights.h"

namespace lockstep::worker {
namespace {

using kernels::DeviceBuffer;
using kernels::kKvBlockTokens;
using Parts = CudaModel::Parts;

std::function<absl::Status(Arena&)> CommitToDevice(const char* what, DeviceBuffer& memory) {
  return [what, &memory](Arena& arena) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(memory, DeviceBuffer::Create(arena.used_bytes(), what));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemset(memory.data(), 0, memory.num_bytes()));
    // Other streams write to this memory next, and do not wait for the stream of the memset.
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
    arena.CommitTo(memory.data());
    return absl::OkStatus();
  };
}

struct PackedLayerMatrices {
  bool exist = false;
  int64_t largest_to_expand = 0;  // in elements. 0: none is ever expanded
};
PackedLayerMatrices FindPackedLayerMatrices(const ModelWeights& weights) {
  PackedLayerMatrices found;
  for (const LayerWeights& layer : weights.layers) {
    for (const LayerPart part : EnumValues<LayerPart>()) {
      const kernels::WeightMatrix& matrix = layer[part].matrix;
      if (matrix.packed == nullptr) continue;
      found.exist = true;
      if (!matrix.packed->CanExpand()) continue;
      found.largest_to_expand = std::max(found.largest_to_expand, matrix.n * matrix.k);
    }
  }
  return found;
}

// A small model is faster in the kernel of all layers, which takes bf16.
bool PacksWeights(const WeightSource& source, const ModelOptions& options, const Parts& parts) {
  if (options.activation_form == ActivationForm::kFp8) return true;
  if (options.weight_form != WeightForm::kAuto) return options.weight_form == WeightForm::kPacked;
  if (!parts.fused_pass.is_used()) return true;
  if (NumCodes(source) > 0) {
    spdlog::info("weights: in bf16, because one kernel runs all layers of this model");
  }
  return false;
}

// Packs to the memory of a device. Any thread calls it.
MakePackedWeights PackForDevice(int device) {
  return [device](std::span<const kernels::QuantizedMatrix> parts)
             -> absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(device));
    return kernels::StripWeights::Create(parts);
  };
}

// The same for FP8 activations. Codes that their products do not take are an error: in bf16 such a
// product would have the bits of another mode.
MakePackedWeights PackForFp8Activations(int device, const kernels::Fp8Scratch& scratch) {
  return [device, &scratch](std::span<const kernels::QuantizedMatrix> parts)
             -> absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(device));
    absl::StatusOr<std::unique_ptr<kernels::Fp8ProductWeights>> weights =
        kernels::Fp8ProductWeights::Create(parts, scratch);
    if (absl::IsInvalidArgument(weights.status())) {
      return FailedPrecondition("--activations fp8: {}", Message(weights.status()));
    }
    return weights;
  };
}

// For the largest input of a product.
absl::StatusOr<kernels::Fp8Scratch> CreateFp8Scratch(const ModelOptions& options,
                                                     const ModelPlan& plan) {
  int64_t max_inputs = plan.hidden_size;
  for (const LayerKind& kind : plan.kinds) {
    for (const LayerPart name : EnumValues<LayerPart>()) {
      max_inputs = std::max(max_inputs, kind.parts[name].num_inputs);
    }
  }
  return kernels::Fp8Scratch::Create(std::max(options.max_step_tokens, options.max_logits_rows),
                                     max_inputs);
}

absl::Status LoadWeights(const WeightSource& source, const ModelOptions& options, Parts& parts) {
  const bool has_fp8_activations = options.activation_form == ActivationForm::kFp8;
  if (has_fp8_activations) {
    LOCKSTEP_ASSIGN_OR_RETURN(parts.fp8_scratch, CreateFp8Scratch(options, parts.plan));
  }
  kernels::ThreadPool threads(
      std::max(options.NumThreads() / static_cast<int>(parts.rank.degree), 1));
  // The ranks load at the same time. One of them reports for all.
  const bool reports = parts.rank.rank == 0;
  const auto report = [&](double fraction) {
    if (reports) options.Report("weights", fraction);
  };
  const WeightLoader loader = {
      .storage = {.layout = WeightLayout::kRowMajor,
                  .packs = PacksWeights(source, options, parts),
                  .packs_whole_products = has_fp8_activations,
                  .rank = parts.rank,
                  .commit = CommitToDevice("weights", parts.weight_memory)},
      .make_packed = has_fp8_activations
                         ? PackForFp8Activations(parts.device_index, parts.fp8_scratch)
                         : PackForDevice(parts.device_index),
      .load =
          [&](const std::vector<LoadTask>& tasks, const LoadProgress& progress) {
            return UploadWeights(tasks, parts.device_index, threads, progress);
          },
      .commit_unpacked = CommitToDevice("weights", parts.unpacked_memory)};
  LOCKSTEP_ASSIGN_OR_RETURN(parts.weights,
                            LoadModelWeights(parts.plan, source, loader, threads, report));
  parts.info.weights_fingerprint = source.Fingerprint();
  return absl::OkStatus();
}

absl::Status CreateState(const ModelOptions& options, Parts& parts) {
  const ModelPlan& plan = parts.plan;
  const AttentionPlan& attention = parts.share.kinds.front().attention;
  const int64_t max_slots = options.max_slots;
  parts.prefill_planner =
      kernels::PrefillPlanner(attention.num_heads, attention.num_kv_heads, attention.head_dim,
                              parts.stream.num_multiprocessors);
  Arena arena;
  const auto lay_out = [&] {
    parts.slots.num_slots = max_slots;
    parts.slots.max_blocks = (plan.max_context_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
    parts.slots.last_token = arena.Take<TokenId>(max_slots);
    parts.slots.position = arena.Take<uint32_t>(max_slots);
    parts.slots.active = arena.Take<uint32_t>(max_slots);
    parts.slots.block_tables = arena.Take<BlockId>(max_slots * parts.slots.max_blocks);
    parts.token_ids = arena.Take<TokenId>(options.max_step_tokens);
    parts.chunks = arena.Take<kernels::AttentionChunk>(max_slots);
    parts.max_prefill_tiles = parts.prefill_planner.MaxTiles(options.max_step_tokens, max_slots);
    parts.tiles = arena.Take<kernels::PrefillTile>(parts.max_prefill_tiles);
    parts.prefill_scratch = arena.Take<float>(parts.prefill_planner.ScratchElements());
    parts.logits = arena.Take<float>(options.max_logits_rows * plan.vocab_size);
    parts.logits_columns =
        parts.rank.degree == 1
            ? parts.logits
            : arena.Take<float>(options.max_logits_rows * parts.rank.Share(plan.vocab_size));
    parts.rope_cos = arena.Take<float>(plan.max_context_tokens * attention.head_dim / 2);
    parts.rope_sin = arena.Take<float>(plan.max_context_tokens * attention.head_dim / 2);
    parts.attention_plan = arena.Take<int32_t>(kernels::DecodePlanElements(max_slots));
    parts.attention_partials = arena.Take<float>(
        kernels::DecodePartialElements(max_slots, attention.num_heads, attention.num_kv_heads,
                                       attention.head_dim, plan.max_context_tokens));
    parts.attention_arrivals =
        arena.Take<uint32_t>(kernels::DecodeArrivalElements(max_slots, attention.num_kv_heads));
    parts.fused_pass.TakeMemory(plan.max_context_tokens, arena);
  };
  lay_out();
  LOCKSTEP_RETURN_IF_ERROR(
      CommitToDevice("state of the slots (a smaller --max-slots or --max-logits-rows needs less)",
                     parts.state_memory)(arena));
  lay_out();
  return absl::OkStatus();
}

// Returns the table's hash.
absl::StatusOr<uint64_t> UploadRope(Parts& parts) {
  const std::vector<kernels::RopeTable> tables = MakeRotations(parts.plan);
  const kernels::RopeTable& table = tables.front();
  const size_t num_bytes = table.cos.size() * sizeof(float);
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(parts.rope_cos, table.cos.data(), num_bytes, cudaMemcpyHostToDevice));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(parts.rope_sin, table.sin.data(), num_bytes, cudaMemcpyHostToDevice));
  return HashOf(tables);
}

// Each size and storage of packed matrices once. Products of several storages count as one, however
// their rows are shared out.
absl::Status CheckPackedWeights(const ModelOptions& options, const Parts& parts) {
  std::set<std::tuple<int64_t, int64_t, std::string>> checked;
  const auto check = [&](const kernels::WeightMatrix& matrix, int64_t max_rows) -> absl::Status {
    if (matrix.packed == nullptr) return absl::OkStatus();
    const bool is_new = checked.insert({matrix.n, matrix.k, matrix.packed->storage_name()}).second;
    if (!is_new) return absl::OkStatus();
    return matrix.packed->CanExpand() ? kernels::CheckPackedProducts(parts.stream, matrix, max_rows)
                                      : kernels::CheckFp8Products(parts.stream, matrix, max_rows);
  };
  for (const LayerWeights& layer : parts.weights.layers) {
    for (const LayerPart part : EnumValues<LayerPart>()) {
      LOCKSTEP_RETURN_IF_ERROR(check(layer[part].matrix, options.max_step_tokens));
    }
  }
  return check(parts.weights.model[ModelPart::kLmHead].matrix, options.max_logits_rows);
}

absl::Status PrepareGemm(const ModelOptions& options, Parts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(parts.gemm, kernels::CudaGemm::Create());
  parts.fuses_activation = options.fuse_activation;
  parts.fuses_exchange = options.fuse_exchange;
  LOCKSTEP_RETURN_IF_ERROR(
      parts.gemm->ReserveExpansion(FindPackedLayerMatrices(parts.weights).largest_to_expand));
  // Prepare checks every plan, and our own kernel.
  if (!options.check_reduction_contract) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(CheckPackedWeights(options, parts));
  std::vector<kernels::GemmShape> shapes;
  const LayerKind& kind = parts.share.kinds.front();
  for (const LayerPart name : EnumValues<LayerPart>()) {
    const Part& part = kind.parts[name];
    if (!part.exists() || part.kind != PartKind::kLinear) continue;
    shapes.push_back({.n = part.num_outputs,
                      .k = part.num_inputs,
                      .has_bias = part.has_bias,
                      .gated = name == LayerPart::kMlpInput && IsGated(kind.mlp.kind),
                      .max_rows = options.max_step_tokens});
  }
  shapes.push_back({.n = parts.rank.Share(parts.plan.vocab_size),
                    .k = parts.plan.hidden_size,
                    .f32_output = true,
                    .max_rows = options.max_logits_rows});
  for (const kernels::GemmShape& shape : shapes) {
    const absl::Status status = parts.gemm->Prepare(parts.stream, shape);
    if (absl::IsResourceExhausted(status)) {
      return Annotate(status,
                      fmt::format("a smaller {} needs less memory",
                                  shape.f32_output ? "--max-logits-rows" : "--max-step-tokens"));
    }
    LOCKSTEP_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpenDevice(int device, const ModelOptions& options, CudaModel::Parts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(parts.device, kernels::DescribeCudaDevice(device));
  if (parts.device.compute_capability != kComputeCapability) {
    return FailedPrecondition("{} has compute capability {}, the kernels are built for {}",
                              parts.device.name, parts.device.compute_capability,
                              kComputeCapability);
  }
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaSetDevice(device));
  parts.device_index = device;
  LOCKSTEP_ASSIGN_OR_RETURN(parts.owned_stream, OwnedCudaStream::Create());
  parts.stream = {.handle = parts.owned_stream.get(),
                  .num_multiprocessors =
                      std::min(parts.device.num_multiprocessors, options.max_multiprocessors),
                  .overlap_launches = options.overlap_launches};
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LoadRank(const WeightSource& source, const ModelOptions& options,
                                  CudaModel::Parts& parts) {
  LOCKSTEP_RETURN_IF_ERROR(parts.fused_pass.Choose(options, parts.plan, parts.rank, parts.stream));
  LOCKSTEP_RETURN_IF_ERROR(LoadWeights(source, options, parts));
  if (FindPackedLayerMatrices(parts.weights).exist) parts.fused_pass = FusedPass();
  LOCKSTEP_ASSIGN_OR_RETURN(
      parts.workspace,
      Workspace::Create(
          parts.plan, parts.rank, options.max_step_tokens, options.max_logits_rows,
          CommitToDevice("workspace of a step (a smaller --max-step-tokens needs less)",
                         parts.workspace_memory)));
  LOCKSTEP_RETURN_IF_ERROR(CreateState(options, parts));
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t rope_hash, UploadRope(parts));
  if (parts.rank.rank == 0) options.Report("self-check", 0.0);
  LOCKSTEP_RETURN_IF_ERROR(PrepareGemm(options, parts));
  return rope_hash;
}

absl::StatusOr<int64_t> CountKvBlocks(const ModelOptions& options, const CudaModel::Parts& parts) {
  if (options.num_kv_blocks != 0) return options.num_kv_blocks;
  const uint64_t block_bytes = parts.share.kv_groups.front().CudaBlockBytes();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes));
  const size_t reserved_bytes = options.reserved_bytes ? options.reserved_bytes(parts.plan) : 0;
  const double usable_bytes =
      static_cast<double>(free_bytes - std::min(free_bytes, reserved_bytes)) *
      options.memory_fraction;
  const auto num_blocks = static_cast<int64_t>(usable_bytes / static_cast<double>(block_bytes));
  if (num_blocks < 2) {
    return ResourceExhausted(
        "{} bytes of device memory are free beside the weights; a KV block takes {}, and at "
        "least 2 are needed",
        free_bytes, block_bytes);
  }
  return num_blocks;
}

absl::Status CreateKvPool(int64_t num_blocks, CudaModel::Parts& parts) {
  LOCKSTEP_ASSIGN_OR_RETURN(parts.kv_pool,
                            CudaKvPool::Create(parts.share.kv_groups.front(), num_blocks));
  parts.info.kv_groups.front().num_blocks = static_cast<uint32_t>(num_blocks);
  return absl::OkStatus();
}

absl::StatusOr<OwnedCudaStream> OwnedCudaStream::Create() {
  OwnedCudaStream stream;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream.handle_, cudaStreamNonBlocking));
  return stream;
}

OwnedCudaStream::~OwnedCudaStream() {
  if (handle_ == nullptr) return;
  cudaStreamSynchronize(handle_);
  cudaStreamDestroy(handle_);
}

}  // namespace lockstep::worker
