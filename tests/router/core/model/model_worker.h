#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "router/core/messages/step.h"
#include "router/core/scheduler.h"

namespace lockstep::router::testing {

// What is in one position of a KV block: the hash of the text up to and including the token whose
// KV it is, and the salt under which it was computed.
struct KvCell {
  uint64_t text_hash = 0;  // 0: nothing was ever written here
  std::string salt;
  bool operator==(const KvCell&) const = default;
};

// The first position that the token at `position` reads.
inline uint32_t FirstRead(const KvGroup& group, uint32_t position) {
  const bool cut = group.has_window() && position >= group.window_tokens;
  return cut ? position + 1 - group.window_tokens : 0;
}

struct KvWrite {
  uint32_t group = 0;
  BlockId block = 0;
  uint32_t offset = 0;
  KvCell cell;
};

// A worker made of plain C++: applies a step exactly as worker.proto says, refuses to accept
// anything that the protocol forbids, and computes a token only from KV that really holds the text
// before it.
class ModelWorker {
 public:
  struct Faults {
    bool refuse = false;                                // this step, and all until resync
    std::optional<SlotId> failing_slot = std::nullopt;  // its row fails, unless it is inert
    uint32_t num_tokens_before_failure = 0;
    // Decides how many drafts of a row are made and are right, and whether a row that may wait
    // does.
    uint64_t draft_seed = 0;
    // Instead: every draft is made, and this many of a row's are right.
    std::optional<uint32_t> num_right_drafts = std::nullopt;
    // Instead: whether every row that may wait does.
    std::optional<bool> rows_wait = std::nullopt;
  };
  struct Executed {
    StepOutcome outcome;
    std::vector<KvWrite> writes;
    std::vector<uint32_t> num_computed;  // of each row's slot, afterwards
  };
  struct Counts {
    uint64_t inert_rows = 0, unsampled_rows = 0, multi_iteration_steps = 0, resyncs = 0,
             repeated_steps = 0, hit_tokens = 0, slots_reused_at_once = 0, early_blocks = 0,
             starts_behind_a_window = 0, grown_windows = 0, right_drafts = 0, wrong_drafts = 0,
             waiting_rows = 0;
  };

  explicit ModelWorker(const WorkerLimits& limits);

  // Not OK: the plan broke the protocol. That is a bug of the scheduler, and the end of the test.
  absl::Status Execute(const StepPlan& plan, const Faults& faults, Executed& executed);
  bool refusing() const { return refusing_; }
  uint32_t num_occupied_slots() const;
  const WorkerLimits& limits() const { return limits_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Slot {
    std::shared_ptr<const Request> request;
    uint32_t sample_index = 0;
    std::vector<TokenId> known;
    std::vector<uint64_t> text_hashes;  // of known[0 .. i]
    uint32_t num_computed = 0;
    std::vector<std::vector<BlockId>> tables;  // by group; kNoBlock: never read
    uint32_t first_prompt_logprob = 0;
    bool inert = false;

    void Append(TokenId token);
    uint32_t num_known() const { return static_cast<uint32_t>(known.size()); }
    uint32_t max_total_tokens() const;
  };

  absl::Status ApplyReleased(const StepPlan& plan);
  absl::Status ApplyStarted(const StepPlan& plan);
  absl::Status CheckStarted(const StartedSlot& started) const;
  absl::Status CheckBlocks(const StartedSlot& started, uint32_t group) const;
  static absl::Status CheckRowless(const StepPlan& plan);
  absl::Status ApplyRows(const StepPlan& plan, const Faults& faults, Executed& executed);
  absl::Status CheckRow(const StepPlan& plan, const RunRow& row) const;
  absl::Status CheckRepeated(const StepPlan& plan, uint64_t num_tokens);
  absl::Status AppendBlocks(const StepPlan& plan, const RunRow& row);
  absl::Status RunRowOnce(const StepPlan& plan, const RunRow& row, const Faults& faults,
                          Executed& executed);
  // Computes the tokens from num_computed up to `end`, checking all KV that they read.
  absl::Status Compute(Slot& slot, uint32_t end, std::vector<KvWrite>& writes);
  struct Drafts {
    uint32_t num_drafted = 0;
    uint32_t num_right = 0;
    bool waits = false;  // the row chooses no token
  };
  static Drafts Draw(const Slot& slot, const RunRow& row, const Faults& faults);
  // The KV of wrong drafts, in the positions from `first` to `end`.
  absl::Status WriteDrafts(const Slot& slot, uint32_t first, uint32_t end,
                           std::vector<KvWrite>& writes);
  static void Sample(Slot& slot, RowOutcome& outcome);
  static void AddPromptLogprobs(const Slot& slot, uint32_t start, uint32_t end,
                                RowOutcome& outcome);
  KvCell& CellOf(const Slot& slot, uint32_t group, uint32_t position);
  // What a row writes, no other slot may read.
  absl::Status CheckUnshared(const Slot& writer, uint32_t group, BlockId block) const;

  const WorkerLimits limits_;
  std::vector<std::optional<Slot>> slots_;
  std::vector<std::vector<KvCell>> cells_;  // by group
  StepId last_step_id_ = 0;
  std::vector<std::pair<SlotId, uint32_t>> last_rows_;  // and how many tokens each may draft
  bool refusing_ = false;
  Counts counts_;
};

}  // namespace lockstep::router::testing
