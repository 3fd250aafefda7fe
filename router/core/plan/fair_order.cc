#include "router/core/plan/fair_order.h"

#include <algorithm>

namespace lockstep::router {

Sequence* FairOrder::FirstByPolicy(std::span<Sequence* const> sequences) const {
  return *std::ranges::min_element(
      sequences, [this](const Sequence* a, const Sequence* b) { return PolicyBefore(*a, *b); });
}

bool FairOrder::FairBefore(const Sequence& a, const Sequence& b) const {
  const double a_served = a.request->share->served;
  const double b_served = b.request->share->served;
  if (a.view.priority == b.view.priority && a_served != b_served) return a_served < b_served;
  return PolicyBefore(a, b);
}

Sequence* FairOrder::FairFirst(std::span<Sequence* const> sequences) const {
  if (sequences.empty()) return nullptr;
  Sequence* first = FirstByPolicy(sequences);
  if (tenants_.num_active() <= 1) return first;
  for (Sequence* sequence : sequences) {
    if (sequence->view.priority == first->view.priority && FairBefore(*sequence, *first)) {
      first = sequence;
    }
  }
  return first;
}

}  // namespace lockstep::router
