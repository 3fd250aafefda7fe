#include "worker/drafters/ngram_drafter.h"

#include <algorithm>

namespace lockstep::worker {
namespace {

// An index is in use if it was asked for during the last few calls for each slot. Indexes in use
// are never freed: two sequences would then index their texts again and again.
constexpr uint64_t kCallsInUse = 4;

}  // namespace

void NgramDrafter::Draft(const Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) {
  ++num_calls_;
  const Index* const index = Update(slot);
  if (index == nullptr) return;
  const SuffixAutomaton::Repeat repeat = index->repeats.LongestRepeat();
  if (repeat.length < options_.min_repeat_tokens) return;
  const std::vector<TokenId>& known = slot.known_tokens();
  // Where the repeat reaches the end of the text, the text is taken to go on in the same way.
  for (size_t from = index->first + repeat.end; drafts.size() < limit; ++from) {
    drafts.push_back(from < known.size() ? known[from] : drafts[from - known.size()]);
  }
}

const NgramDrafter::Index* NgramDrafter::Update(const Slot& slot) {
  std::unique_ptr<Index>& entry = indexes_[&slot];
  if (entry == nullptr) entry = std::make_unique<Index>();
  Index& index = *entry;
  index.last_call = num_calls_;
  const uint32_t num_known = slot.num_known();
  if (index.num_starts != slot.num_starts() || index.first + index.num_claimed > num_known) {
    Clear(index);
    index.num_starts = slot.num_starts();
  }
  if (num_known - index.first > options_.max_slot_tokens) {
    Clear(index);
    index.first = num_known - options_.max_slot_tokens / 2;
  }
  const uint32_t num_wanted = num_known - index.first;
  if (!MakeRoom(num_wanted - index.num_claimed)) return nullptr;
  num_claimed_ += num_wanted - index.num_claimed;
  index.num_claimed = num_wanted;
  const std::vector<TokenId>& known = slot.known_tokens();
  const uint32_t begin = index.first + index.repeats.size();
  const uint32_t end = begin + std::min(num_known - begin, options_.max_tokens_per_call);
  for (uint32_t i = begin; i < end; ++i) index.repeats.Append(known[i]);
  return end == num_known ? &index : nullptr;
}

void NgramDrafter::Clear(Index& index) {
  num_claimed_ -= index.num_claimed;
  index.num_claimed = 0;
  index.repeats.Clear();
  index.first = 0;
}

bool NgramDrafter::MakeRoom(uint32_t num_tokens) {
  const auto has_room = [this, num_tokens] {
    return num_claimed_ + num_tokens <= options_.max_indexed_tokens;
  };
  while (!has_room()) {
    Index* oldest = nullptr;
    for (const auto& [slot, index] : indexes_) {
      if (index->num_claimed == 0) continue;
      if (oldest == nullptr || index->last_call < oldest->last_call) oldest = index.get();
    }
    if (oldest == nullptr) return false;
    if (num_calls_ - oldest->last_call <= kCallsInUse * indexes_.size()) return false;
    Clear(*oldest);
  }
  return true;
}

}  // namespace lockstep::worker
