#include "worker/cuda/steps/step_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "worker/memory/arena.h"

namespace lockstep::worker {
namespace {

void LayOutStaging(const CudaModel& model, Arena& arena, PassStaging& staging) {
  const int64_t max_slots = model.slots().num_slots;
  const int64_t logits_rows = model.info().max_logits_rows;
  staging.updates = arena.Take<kernels::SlotUpdate>(max_slots);
  staging.blocks = arena.Take<BlockId>(max_slots * model.slots().max_blocks);
  staging.count_updates = arena.Take<kernels::CountUpdate>(max_slots);
  staging.batch.decode_slots = arena.Take<uint32_t>(max_slots);
  staging.draft_numbers = arena.Take<uint32_t>(max_slots);
  staging.batch.chunks = arena.Take<kernels::AttentionChunk>(max_slots);
  const auto max_tiles = static_cast<size_t>(model.max_prefill_tiles());
  staging.batch.tiles = {arena.Take<kernels::PrefillTile>(model.max_prefill_tiles()), max_tiles};
  staging.batch.chunk_token_ids = arena.Take<TokenId>(model.info().max_step_tokens);
  staging.logits_tokens = arena.Take<uint32_t>(logits_rows);
  staging.sample_slots = arena.Take<uint32_t>(logits_rows);
  staging.prompt_tokens = arena.Take<TokenId>(logits_rows);
  staging.prompt_num_best = arena.Take<int32_t>(logits_rows);
  staging.prompt_descriptions = arena.Take<kernels::RowDescription>(logits_rows);
}

void LayOutRing(const CudaModel& model, Arena& arena, kernels::ResultRing& ring) {
  constexpr int64_t kCapacity = CudaStepMemory::kNumPasses;
  const int64_t logits_rows = model.info().max_logits_rows;
  ring.capacity = kCapacity;
  ring.max_rows = static_cast<uint32_t>(logits_rows);
  ring.reported = arena.Take<uint64_t>(kCapacity);
  ring.begin_ns = arena.Take<uint64_t>(kCapacity);
  ring.end_ns = arena.Take<uint64_t>(kCapacity);
  ring.rows = arena.Take<kernels::SampledRow>(kCapacity * logits_rows);
  ring.descriptions = arena.Take<kernels::RowDescription>(kCapacity * logits_rows);
}

}  // namespace

SlotStaging CudaStepMemory::SlotOf(uint32_t slot) const {
  return {.params = host_params + slot,
          .list_ids = host_list_ids + size_t{slot} * kMaxSamplingListIds,
          .list_values = host_list_values + size_t{slot} * kMaxSamplingListIds,
          .known_tokens = host_known_tokens + int64_t{slot} * max_context_tokens_};
}

void CudaStepMemory::LayOutDevice(const DeviceShape& shape, Arena& arena) {
  const int64_t num_list_ids = shape.max_slots * int64_t{kMaxSamplingListIds};
  params = arena.Take<kernels::DeviceSampleParams>(shape.max_slots);
  list_ids = arena.Take<TokenId>(num_list_ids);
  list_values = arena.Take<float>(num_list_ids);
  token_counts = arena.Take<uint32_t>(shape.max_slots * shape.vocab_size);
  row_slots = arena.Take<uint32_t>(shape.max_slots);
  tokens = arena.Take<TokenId>(shape.max_logits_rows);
  statuses = arena.Take<uint32_t>(shape.max_logits_rows);
  num_best = arena.Take<int32_t>(shape.max_logits_rows);
  descriptions = arena.Take<kernels::RowDescription>(shape.max_logits_rows);
  begin_ns = arena.Take<uint64_t>(1);
  ring.next = arena.Take<uint64_t>(1);
  if (!shape.drafts.exist()) return;
  const int64_t num_known_tokens = shape.max_slots * shape.max_context_tokens;
  draft_numbers = arena.Take<uint32_t>(shape.max_slots);
  draft_table.max_drafts = shape.drafts.max_tokens;
  draft_table.tokens = arena.Take<TokenId>(shape.max_slots * int64_t{shape.drafts.max_tokens});
  draft_table.num_drafts = arena.Take<uint32_t>(shape.max_slots);
  known_tokens = arena.Take<TokenId>(num_known_tokens);
  if (shape.drafts.source == CudaDraftSource::kScript) {
    draft_script = arena.Take<TokenId>(num_known_tokens);
  }
}

size_t CudaStepMemory::DeviceBytes(const DeviceShape& shape) {
  Arena arena;
  CudaStepMemory().LayOutDevice(shape, arena);
  return arena.used_bytes();
}

void CudaStepMemory::LayOutPinned(const CudaModel& model, bool has_staging, Arena& arena) {
  if (has_staging) {
    for (PassStaging& pass : staging) LayOutStaging(model, arena, pass);
  }
  LayOutRing(model, arena, ring);
  if (!has_staging) return;
  const int64_t max_slots = model.slots().num_slots;
  const int64_t num_list_ids = max_slots * int64_t{kMaxSamplingListIds};
  host_params = arena.Take<kernels::DeviceSampleParams>(max_slots);
  host_list_ids = arena.Take<TokenId>(num_list_ids);
  host_list_values = arena.Take<float>(num_list_ids);
  host_known_tokens = arena.Take<TokenId>(max_slots * max_context_tokens_);
}

absl::StatusOr<std::unique_ptr<CudaStepMemory>> CudaStepMemory::Create(
    const CudaModel& model, const CudaDrafts& drafts, const CudaStepMemory* staging_of) {
  std::unique_ptr<CudaStepMemory> memory(new CudaStepMemory());
  CudaStepMemory& m = *memory;
  m.max_context_tokens_ = model.info().max_context_tokens;

  Arena pinned;
  const bool has_staging = staging_of == nullptr;
  m.LayOutPinned(model, has_staging, pinned);
  LOCKSTEP_ASSIGN_OR_RETURN(
      m.pinned_, kernels::PinnedBuffer::Create(pinned.used_bytes(),
                                               "staging of steps in pinned host memory (a smaller "
                                               "--max-slots or --max-logits-rows needs less)"));
  std::memset(m.pinned_.data(), 0, m.pinned_.num_bytes());
  pinned.CommitTo(m.pinned_.data());
  m.LayOutPinned(model, has_staging, pinned);
  if (!has_staging) {
    std::copy(std::begin(staging_of->staging), std::end(staging_of->staging), m.staging);
    m.host_params = staging_of->host_params;
    m.host_list_ids = staging_of->host_list_ids;
    m.host_list_values = staging_of->host_list_values;
    m.host_known_tokens = staging_of->host_known_tokens;
  }

  Arena device;
  const DeviceShape shape = {.max_slots = model.slots().num_slots,
                             .max_logits_rows = model.info().max_logits_rows,
                             .vocab_size = model.plan().vocab_size,
                             .max_context_tokens = m.max_context_tokens_,
                             .drafts = drafts};
  m.LayOutDevice(shape, device);
  LOCKSTEP_ASSIGN_OR_RETURN(
      m.device_,
      kernels::DeviceBuffer::Create(
          device.used_bytes(), "sampling state of the slots (a smaller --max-slots needs less)"));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemset(m.device_.data(), 0, m.device_.num_bytes()));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  device.CommitTo(m.device_.data());
  m.LayOutDevice(shape, device);
  return memory;
}

}  // namespace lockstep::worker
