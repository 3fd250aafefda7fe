#pragma once

#include <array>
#include <cstdint>

namespace lockstep::router {

// The most tokens that a worker may draft for a row.
inline constexpr uint32_t kMaxDrafts = 16;

// How drafts fare, by their place in a row. Probabilities.
struct DraftOdds {
  // That draft j is made, if the drafts before it are made and allowed.
  std::array<float, kMaxDrafts> made;
  // That draft j is right, if it is made and the drafts before it are right.
  std::array<float, kMaxDrafts> right;

  // Before anything is known. Drafts are tried, and cost little until they are known better.
  static DraftOdds Unknown();
};

// What a row drafted.
struct DraftRound {
  uint32_t limit = 0;  // drafts that it might make
  uint32_t num_made = 0;
  uint32_t num_right = 0;  // leading drafts that were kept
  bool probes = false;     // its last draft is a probe
};

// What is known of the drafts of one sequence.
//
// Drafts are probed: now and then one more draft is allowed than pays, so that a sequence that
// begins to copy is noticed. A right probe is followed by another at once. A probe that the worker
// made no draft for costs nothing, and is repeated.
class DraftRecord {
 public:
  // `weight`: of this round in the means.
  static void Update(const DraftRound& round, float weight, DraftOdds& odds);

  void Begin(const DraftOdds& prior) {
    odds_ = prior;
    begun_ = true;
  }
  bool begun() const { return begun_; }
  const DraftOdds& odds() const { return odds_; }

  // True if a draft should be probed at this place of the next row, where `interval` tokens lie
  // between probes. If drafts there are known to be right, they are left out because they cost too
  // much, and a probe would tell nothing.
  bool ProbeIsDue(uint32_t place, double interval) const {
    return tokens_since_probe_ >= interval && odds_.right[place] < kKnownRight;
  }
  void NoteProbe() { tokens_since_probe_ = 0; }
  // `num_kept`: tokens that the row kept in all.
  void Observe(const DraftRound& round, uint32_t num_kept);

 private:
  static constexpr float kKnownRight = 0.9F;
  static constexpr uint32_t kLongAgo = 1 << 20;

  DraftOdds odds_ = {};
  bool begun_ = false;
  uint32_t tokens_since_probe_ = kLongAgo;
};

}  // namespace lockstep::router
