#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "worker/drafters/suffix_automaton.h"
#include "worker/steps/drafter.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

struct NgramDrafterOptions {
  // The text must end with at least so many tokens that it had before. Shorter repeats say little.
  uint32_t min_repeat_tokens = 2;
  // Tokens that are indexed of a sequence. A longer one forgets its oldest half.
  uint32_t max_slot_tokens = 1 << 16;
  // Of all sequences together: about 100 MiB.
  uint32_t max_indexed_tokens = 1 << 20;
  // All rows of a step wait while one is indexed. A longer text is silent for some steps.
  uint32_t max_tokens_per_call = 1 << 12;
};

// Drafts what followed when the end of a sequence occurred before, in its prompt or its output
// (prompt lookup). It is right where a text copies: an edited file, a quoted document, a tool's
// result. Looks for the longest repeat in an index of the sequence, which costs amortised O(1) per
// token. Never looks at another sequence.
//
// One drafter for one step runner: it tells sequences apart by the address of their slot and by how
// often the slot was started.
class NgramDrafter final : public Drafter {
 public:
  explicit NgramDrafter(const NgramDrafterOptions& options = {}) : options_(options) {}

  void Draft(const Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override;

  // Tokens that have room in an index, those that are not indexed yet included.
  size_t num_indexed_tokens() const { return num_claimed_; }

 private:
  // The index of a slot's sequence.
  struct Index {
    uint64_t num_starts = 0;   // of the slot, as it was indexed
    uint32_t first = 0;        // position of the first indexed token
    uint32_t num_claimed = 0;  // tokens that have room, from `first` on
    uint64_t last_call = 0;
    SuffixAutomaton repeats;
  };

  // The index with all known tokens. Null: there is no room, or some are not indexed yet.
  const Index* Update(const Slot& slot);
  void Clear(Index& index);
  // Frees indexes that were not used for a while, until so many tokens have room. False if they
  // do not.
  bool MakeRoom(uint32_t num_tokens);

  const NgramDrafterOptions options_;
  absl::flat_hash_map<const Slot*, std::unique_ptr<Index>> indexes_;
  size_t num_claimed_ = 0;  // tokens, over all slots
  uint64_t num_calls_ = 0;
};

}  // namespace lockstep::worker
