#include "router/core/policy/draft_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::router {
namespace {

// Of one round in the means over all sequences.
constexpr float kMeanWeight = 1.0F / 64;
// Another price must be better by this much.
constexpr double kHysteresis = 1.02;
// Drafts of others make a sequence slower by at most this factor.
constexpr double kMostSlowdown = 1.25;
// Probes take at most this share of the time.
constexpr double kShareOfProbes = 0.01;
constexpr double kLongestProbeInterval = 256;
// Steps with drafts between two steps without, if these are needed for their time.
constexpr uint32_t kStepsBetweenPlain = 64;

// The square root resolves small chances better. On a GPU a draft pays from about one percent on.
// Drafts of level 0 never pay.
uint32_t LevelOf(float chance, uint32_t num_levels) {
  const auto level = static_cast<uint32_t>(std::sqrt(chance) * static_cast<float>(num_levels));
  return std::min(level, num_levels - 1);
}

}  // namespace

void DraftPolicy::ObserveRow(DraftRecord& record, const DraftRound& round, uint32_t num_kept) {
  record.Observe(round, num_kept);
  DraftRecord::Update(round, kMeanWeight, mean_odds_);
}

void DraftPolicy::Choose(std::span<DraftingRow> rows) {
  for (DraftingRow& row : rows) {
    row.num_drafts = 0;
    row.probes = false;
    if (row.max_drafts > 0 && !row.record->begun()) row.record->Begin(mean_odds_);
  }
  goodput_ = {};
  if (rows.empty() || times_.empty()) return;
  FillLevels(rows);
  price_ = ChoosePrice(static_cast<double>(rows.size()));
  bool any_drafts = false;
  for (DraftingRow& row : rows) {
    float chance = 1;
    for (const uint32_t most = std::min(row.max_drafts, kMaxDrafts); row.num_drafts < most;) {
      chance *= row.record->odds().right[row.num_drafts];
      if (LevelOf(chance, kNumLevels) < price_) break;
      ++row.num_drafts;
      any_drafts = true;
    }
  }
  if (MustMeasurePlainStep(static_cast<uint32_t>(rows.size()), any_drafts)) {
    for (DraftingRow& row : rows) row.num_drafts = 0;
    return;
  }
  const double interval = ProbeInterval(static_cast<double>(rows.size()));
  for (DraftingRow& row : rows) {
    if (row.num_drafts >= std::min(row.max_drafts, kMaxDrafts)) continue;
    if (!row.record->ProbeIsDue(row.num_drafts, interval)) continue;
    row.record->NoteProbe();
    row.probes = true;
    ++row.num_drafts;
  }
}

void DraftPolicy::FillLevels(std::span<DraftingRow> rows) {
  levels_.fill({.least_kept = std::numeric_limits<float>::infinity()});
  for (const DraftingRow& row : rows) {
    float kept = 1, chance = 1, made = 1;
    uint32_t above = kNumLevels;  // levels from here on have their least_kept
    const auto note_kept = [&](uint32_t from) {
      for (; above > from; --above) {
        levels_[above - 1].least_kept = std::min(levels_[above - 1].least_kept, kept);
      }
    };
    for (uint32_t j = 0; j < std::min(row.max_drafts, kMaxDrafts); ++j) {
      const DraftOdds& odds = row.record->odds();
      chance *= odds.right[j];
      made *= odds.made[j];
      const uint32_t level = LevelOf(chance, kNumLevels);
      if (level == 0) break;
      note_kept(level + 1);
      kept += chance * made;
      levels_[level].num_right += chance * made;
      levels_[level].num_made += made;
    }
    note_kept(0);
  }
}

uint32_t DraftPolicy::ChoosePrice(double num_rows) {
  struct Choice {
    double goodput = 0;
    double num_tokens = 0;
    uint32_t price = kOff;
  };
  const double plain_seconds = times_.Seconds(num_rows);
  const Choice off = {.goodput = num_rows / plain_seconds, .num_tokens = num_rows};
  Choice best = off, current = price_ == kOff ? off : Choice();
  double num_kept = num_rows, num_tokens = num_rows;
  for (uint32_t level = kNumLevels - 1; level > 0; --level) {
    num_kept += levels_[level].num_right;
    num_tokens += levels_[level].num_made;
    if (levels_[level].num_made == 0 && level != price_) continue;
    const double seconds = times_.Seconds(num_tokens);
    if (num_tokens > times_.max_tokens() || seconds > max_step_seconds_ ||
        seconds > kMostSlowdown * plain_seconds * levels_[level].least_kept) {
      continue;
    }
    const Choice choice = {num_kept / seconds, num_tokens, level};
    if (level == price_) current = choice;
    if (choice.goodput > best.goodput) best = choice;
  }
  const bool stays = current.goodput >= off.goodput && best.goodput < kHysteresis * current.goodput;
  const Choice& chosen = stays ? current : best;
  goodput_ = {.chosen = chosen.goodput, .off = off.goodput};
  expected_tokens_ = chosen.num_tokens;
  return chosen.price;
}

double DraftPolicy::ProbeInterval(double num_rows) const {
  const double seconds = times_.Seconds(expected_tokens_);
  const double longer = times_.Seconds(expected_tokens_ + 1) - seconds;
  return std::clamp(num_rows * longer / seconds / kShareOfProbes, 1.0, kLongestProbeInterval);
}

bool DraftPolicy::MustMeasurePlainStep(uint32_t num_rows, bool any_drafts) {
  ++num_steps_since_plain_;
  if (!any_drafts) {
    num_steps_since_plain_ = 0;
    return false;
  }
  if (num_steps_since_plain_ < kStepsBetweenPlain || times_.WasMeasuredLately(num_rows)) {
    return false;
  }
  num_steps_since_plain_ = 0;
  return true;
}

}  // namespace lockstep::router
