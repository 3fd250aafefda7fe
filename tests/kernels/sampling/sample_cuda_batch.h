#pragma once

#include <limits>
#include <random>
#include <vector>

#include "kernels/sampling/cuda/sample_cuda.h"
#include "kernels/sampling/sample.h"
#include "tests/support/cuda_test.h"

namespace lockstep::testing {

// What a row is sampled from; the token counts are a property of its slot.
struct SampleCase {
  kernels::SampleParams params = {};
  std::vector<float> logits = {};
  std::vector<kernels::TokenCount> seen = {};
  bool mask_stop_ids = false;
  uint32_t position = 1;  // of the token being sampled, >= 1
};

inline std::vector<float> GaussianLogits(size_t size, uint64_t seed, float scale = 2.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Host copies of the device's sampler state, as an executor would build them.
class SamplerHostState {
 public:
  SamplerHostState(size_t num_slots, int64_t vocab_size)
      : vocab_size_(vocab_size), params_(num_slots) {}

  void Set(uint32_t slot, const kernels::SampleParams& params,
           const std::vector<kernels::TokenCount>& seen) {
    kernels::DeviceSampleParams& device = params_[slot];
    device = {params};
    device.sample_index = params.sample_index;
    device.seed = params.seed;
    device.bias_begin = Append(params.logit_bias_ids, params.logit_bias_values);
    device.num_bias = static_cast<uint32_t>(params.logit_bias_ids.size());
    device.allowed_begin = Append(params.allowed_token_ids, {});
    device.num_allowed = static_cast<uint32_t>(params.allowed_token_ids.size());
    device.stop_begin = Append(params.stop_token_ids, {});
    device.num_stop = static_cast<uint32_t>(params.stop_token_ids.size());
    device.max_total_tokens = UINT32_MAX;
    if (!params.has_penalties()) return;
    device.count_row = static_cast<uint32_t>(counts_.size() / static_cast<size_t>(vocab_size_));
    counts_.resize(counts_.size() + static_cast<size_t>(vocab_size_), 0);
    uint32_t* const counts = counts_.data() + device.count_row * vocab_size_;
    for (const kernels::TokenCount& entry : seen) counts[entry.token] = entry.num_generated + 1;
  }
  kernels::DeviceSampleParams& params(uint32_t slot) { return params_[slot]; }

  const std::vector<kernels::DeviceSampleParams>& all_params() const { return params_; }
  const std::vector<TokenId>& list_ids() const { return list_ids_; }
  const std::vector<float>& list_values() const { return list_values_; }
  const std::vector<uint32_t>& counts() const { return counts_; }

 private:
  uint32_t Append(const std::vector<TokenId>& ids, const std::vector<float>& values) {
    const auto begin = static_cast<uint32_t>(list_ids_.size());
    list_ids_.insert(list_ids_.end(), ids.begin(), ids.end());
    list_values_.insert(list_values_.end(), values.begin(), values.end());
    list_values_.resize(list_ids_.size(), std::numeric_limits<float>::quiet_NaN());
    return begin;
  }

  const int64_t vocab_size_;
  std::vector<kernels::DeviceSampleParams> params_;
  std::vector<TokenId> list_ids_;
  std::vector<float> list_values_;
  std::vector<uint32_t> counts_;
};

struct SampledBatch {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> statuses;
  std::vector<int32_t> num_best;
  int64_t row_stride = 0;
};

// Samples all cases in one call. Slots are given out from the last to the first, rows are padded to
// `row_stride` with NaN, and `num_padding` rows of no slot come first.
inline SampledBatch SampleOnDevice(const kernels::CudaStream& stream,
                                   const std::vector<SampleCase>& cases, int64_t row_stride,
                                   size_t num_padding = 0, bool all_plain_greedy = false) {
  const auto vocab_size = static_cast<int64_t>(cases.front().logits.size());
  const size_t num_rows = cases.size() + num_padding;
  SamplerHostState host(cases.size(), vocab_size);
  std::vector<uint32_t> row_slots(num_rows, kernels::kNoSlot);
  std::vector<uint32_t> positions(cases.size());
  std::vector<float> logits(num_rows * static_cast<size_t>(row_stride),
                            std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto slot = static_cast<uint32_t>(cases.size() - 1 - i);
    const size_t row = num_padding + i;
    host.Set(slot, cases[i].params, cases[i].seen);
    if (cases[i].mask_stop_ids) host.params(slot).min_total_tokens = cases[i].position + 1;
    positions[slot] = cases[i].position - 1;
    row_slots[row] = slot;
    std::copy(cases[i].logits.begin(), cases[i].logits.end(),
              logits.begin() + static_cast<std::ptrdiff_t>(row) * row_stride);
  }
  const DeviceArray<float> device_logits(logits), list_values(host.list_values());
  const DeviceArray<uint32_t> device_row_slots(row_slots), position(positions),
      active(std::vector<uint32_t>(cases.size(), 1)), counts(host.counts()),
      list_ids(host.list_ids());
  const DeviceArray<kernels::DeviceSampleParams> params(host.all_params());
  const DeviceArray<TokenId> tokens(num_rows);
  const DeviceArray<uint32_t> statuses(num_rows);
  const DeviceArray<int32_t> num_best(num_rows);
  const absl::Status status =
      kernels::SampleRows(stream, {.logits = device_logits.data(),
                                   .row_stride = row_stride,
                                   .num_rows = static_cast<int64_t>(num_rows),
                                   .vocab_size = vocab_size,
                                   .row_slots = device_row_slots.data(),
                                   .all_plain_greedy = all_plain_greedy,
                                   .state = {.position = position.data(),
                                             .active = active.data(),
                                             .num_slots = static_cast<int64_t>(cases.size())},
                                   .tables = {.params = params.data(),
                                              .list_ids = list_ids.data(),
                                              .list_values = list_values.data(),
                                              .token_counts = counts.data()},
                                   .tokens = tokens.data(),
                                   .statuses = statuses.data(),
                                   .num_best = num_best.data()});
  EXPECT_TRUE(status.ok()) << status;
  SampledBatch batch = {tokens.Read(), statuses.Read(), num_best.Read(), row_stride};
  tokens.ExpectGuardsIntact();
  statuses.ExpectGuardsIntact();
  num_best.ExpectGuardsIntact();
  return batch;
}

}  // namespace lockstep::testing
