#include "router/constraints/constraint_verdicts.h"

#include <iterator>

namespace lockstep::router {
namespace {

size_t NumBytes(const Constraint& constraint) {
  return sizeof(constraint.kind) + constraint.text.size();
}

}  // namespace

absl::Status OwnCopy(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

std::optional<absl::Status> ConstraintVerdicts::Find(const Constraint& constraint) {
  const auto found = places_.find(KeyOf(constraint));
  if (found == places_.end()) return std::nullopt;
  verdicts_.splice(verdicts_.begin(), verdicts_, found->second);
  return OwnCopy(found->second->second);
}

void ConstraintVerdicts::Add(const Constraint& constraint, const absl::Status& verdict) {
  if (const auto known = places_.find(KeyOf(constraint)); known != places_.end()) {
    Remove(known->second);
  }
  verdicts_.emplace_front(constraint, OwnCopy(verdict));
  places_.emplace(KeyOf(verdicts_.front().first), verdicts_.begin());
  num_bytes_ += NumBytes(constraint);
  while (verdicts_.size() > max_verdicts_ || num_bytes_ > max_bytes_) {
    Remove(std::prev(verdicts_.end()));
  }
}

void ConstraintVerdicts::Remove(Place place) {
  num_bytes_ -= NumBytes(place->first);
  places_.erase(KeyOf(place->first));
  verdicts_.erase(place);
}

}  // namespace lockstep::router
