#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// Guesses the next tokens of a sequence. A step runner computes the guesses together with the last
// known token, samples as it would without them, and keeps the guesses that equal the samples. So a
// drafter only decides how many steps a text takes. It may be wrong, random or silent, and may
// differ between workers. Lives on the executor thread.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Appends likely next tokens of the slot to `drafts`, which is empty before, in order. The runner
  // drops tokens beyond `limit` (>= 1), and all tokens from the first id outside the vocabulary on.
  virtual void Draft(const Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) = 0;
};

}  // namespace lockstep::worker
