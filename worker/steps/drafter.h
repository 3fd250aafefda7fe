#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// Guesses which tokens come next in a sequence. A step runner computes the guesses together with
// the last known token, samples as without them, and keeps the guesses that are what it sampled. So
// a drafter decides how many steps a text takes, and nothing else. It may be wrong, random or
// silent, and need not be the same on every worker. Lives on the executor thread.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Appends the tokens that may follow the slot's known tokens to `drafts`, the next one first. It
  // is empty before. The runner drops what is beyond `limit` (>= 1), and what comes from the first
  // id outside the vocabulary on.
  virtual void Draft(const Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) = 0;
};

}  // namespace lockstep::worker
