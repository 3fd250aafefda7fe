#include "router/constraints/constraint_verdicts.h"

namespace lockstep::router {
namespace {

std::string KeyOf(const Constraint& constraint) {
  return std::string(1, static_cast<char>(constraint.kind)) + constraint.text;
}

}  // namespace

std::optional<absl::Status> ConstraintVerdicts::Find(const Constraint& constraint) {
  const auto place = places_.find(KeyOf(constraint));
  if (place == places_.end()) return std::nullopt;
  verdicts_.splice(verdicts_.begin(), verdicts_, place->second);
  return place->second->second;
}

void ConstraintVerdicts::Add(const Constraint& constraint, const absl::Status& verdict) {
  std::string key = KeyOf(constraint);
  if (const auto known = places_.find(key); known != places_.end()) {
    num_bytes_ -= key.size();
    verdicts_.erase(known->second);
    places_.erase(known);
  }
  num_bytes_ += key.size();
  verdicts_.emplace_front(key, verdict);
  places_[std::move(key)] = verdicts_.begin();
  while (verdicts_.size() > max_verdicts_ || num_bytes_ > max_bytes_) {
    num_bytes_ -= verdicts_.back().first.size();
    places_.erase(verdicts_.back().first);
    verdicts_.pop_back();
  }
}

}  // namespace lockstep::router
