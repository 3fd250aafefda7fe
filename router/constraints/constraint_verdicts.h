#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <list>
#include <optional>
#include <string_view>
#include <utility>

#include "common/constraints/constraint.h"

namespace lockstep::router {

// A status for another thread. A plain copy shares its text. If Abseil's library is built without
// ThreadSanitizer, that tool does not see which copy frees the text.
absl::Status OwnCopy(const absl::Status& status);

// The latest verdicts on constraints: OK, or why one cannot be enforced. The least recently used
// ones go first. Used by one thread at a time.
class ConstraintVerdicts {
 public:
  // Bounds of the number of verdicts, and of the texts of their constraints together.
  ConstraintVerdicts(size_t max_verdicts, size_t max_bytes)
      : max_verdicts_(max_verdicts), max_bytes_(max_bytes) {}

  // The status shares nothing with the verdicts.
  std::optional<absl::Status> Find(const Constraint& constraint);
  void Add(const Constraint& constraint, const absl::Status& verdict);

  size_t size() const { return verdicts_.size(); }
  size_t num_bytes() const { return num_bytes_; }

 private:
  using Verdict = std::pair<Constraint, absl::Status>;
  using Place = std::list<Verdict>::iterator;
  // Views the text in `verdicts_`, or that of a caller.
  using Key = std::pair<ConstraintKind, std::string_view>;

  static Key KeyOf(const Constraint& constraint) { return {constraint.kind, constraint.text}; }
  void Remove(Place place);

  const size_t max_verdicts_;
  const size_t max_bytes_;
  std::list<Verdict> verdicts_;  // the latest use comes first
  absl::flat_hash_map<Key, Place> places_;
  size_t num_bytes_ = 0;
};

}  // namespace lockstep::router
