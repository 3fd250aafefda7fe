#include "router/core/policy/draft_record.h"

#include <algorithm>

namespace lockstep::router {
namespace {

// Of the latest round in a sequence's means.
constexpr float kRoundWeight = 1.0F / 16;

void Move(float& mean, bool happened, float weight) {
  mean += ((happened ? 1.0F : 0.0F) - mean) * weight;
}

}  // namespace

DraftOdds DraftOdds::Unknown() {
  DraftOdds odds;
  odds.made.fill(1.0F);
  odds.right.fill(0.6F);
  return odds;
}

void DraftRecord::Update(const DraftRound& round, float weight, DraftOdds& odds) {
  const uint32_t limit = std::min(round.limit, kMaxDrafts);
  const uint32_t num_made = std::min(round.num_made, limit);
  for (uint32_t j = 0; j < limit && j <= num_made; ++j) Move(odds.made[j], j < num_made, weight);
  for (uint32_t j = 0; j < num_made && j <= round.num_right; ++j) {
    Move(odds.right[j], j < round.num_right, weight);
  }
}

void DraftRecord::Observe(const DraftRound& round, uint32_t num_kept) {
  Update(round, kRoundWeight, odds_);
  tokens_since_probe_ = std::min(tokens_since_probe_ + num_kept, kLongAgo);
  if (!round.probes) return;
  if (round.num_made < round.limit || round.num_right == round.limit) {
    tokens_since_probe_ = kLongAgo;
  }
}

}  // namespace lockstep::router
