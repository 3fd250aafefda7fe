#include "worker/steps/slot.h"

#include <algorithm>

#include "common/grpc/sampling_fields.h"

namespace lockstep::worker {
namespace {

template <typename T>
void Assign(const google::protobuf::RepeatedField<T>& from, std::vector<T>& to) {
  to.assign(from.begin(), from.end());
}

}  // namespace

void TokenHistogram::Clear() {
  counts_.clear();
  index_of_.clear();
}

void TokenHistogram::Add(TokenId token, bool generated) {
  const auto [entry, is_new] = index_of_.try_emplace(token, static_cast<uint32_t>(counts_.size()));
  if (is_new) counts_.push_back({token, 0});
  if (generated) ++counts_[entry->second].num_generated;
}

bool Slot::IsStopId(TokenId token) const {
  return std::find(params_.stop_token_ids.begin(), params_.stop_token_ids.end(), token) !=
         params_.stop_token_ids.end();
}

void Slot::Start(const v1::StartedSlot& message) {
  const v1::SlotSampling& sampling = message.sampling();
  ++num_starts_;
  occupied_ = true;
  inert_ = false;
  num_prompt_ = message.num_prompt_tokens();
  num_computed_ = message.num_computed_tokens();
  max_unreported_ = 0;
  min_total_tokens_ = sampling.min_total_tokens();
  max_total_tokens_ = sampling.max_total_tokens();
  first_prompt_logprob_ = message.first_prompt_logprob();
  num_logprobs_ = sampling.num_logprobs();
  num_prompt_logprobs_ = sampling.num_prompt_logprobs();
  Assign(message.known_tokens(), known_tokens_);
  Assign(message.blocks(), block_tables_.front());
  for (int i = 0; i < message.group_blocks_size(); ++i) {
    const v1::GroupBlocks& blocks = message.group_blocks(i);
    std::vector<BlockId>& table = block_tables_[static_cast<size_t>(i) + 1];
    table.assign(blocks.first(), kNoBlock);
    table.insert(table.end(), blocks.blocks().begin(), blocks.blocks().end());
  }

  ReadSamplingNumbers(sampling, params_);
  params_.seed = sampling.seed();
  params_.sample_index = sampling.sample_index();
  Assign(sampling.logit_bias_ids(), params_.logit_bias_ids);
  Assign(sampling.logit_bias_values(), params_.logit_bias_values);
  Assign(sampling.allowed_token_ids(), params_.allowed_token_ids);
  Assign(sampling.stop_token_ids(), params_.stop_token_ids);

  histogram_.Clear();
  if (params_.has_penalties()) {
    for (uint32_t i = 0; i < num_known(); ++i) histogram_.Add(known_tokens_[i], i >= num_prompt_);
  }
}

void Slot::Release() {
  occupied_ = false;
  inert_ = false;
}

void Slot::AppendBlocks(uint32_t group, std::span<const BlockId> blocks) {
  std::vector<BlockId>& table = block_tables_[group];
  table.insert(table.end(), blocks.begin(), blocks.end());
}

void Slot::TakeDrafts(uint32_t num_drafts, uint32_t num_kept) {
  max_unreported_ -= num_drafts;
  num_computed_ += num_kept;
  known_tokens_.resize(known_tokens_.size() + num_kept);
}

void Slot::AppendSampled(TokenId token) {
  known_tokens_.push_back(token);
  if (params_.has_penalties()) histogram_.Add(token, /*generated=*/true);
}

}  // namespace lockstep::worker
