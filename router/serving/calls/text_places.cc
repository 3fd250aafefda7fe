#include "router/serving/calls/text_places.h"

#include <algorithm>

#include "common/status.h"

namespace lockstep::router {

TextPlaces::TextPlaces(uint32_t max_places)
    : max_places_(max_places), max_places_of_tenant_(std::max<uint32_t>(1, max_places / 4)) {}

absl::Status TextPlaces::Take(std::string_view tenant) {
  MutexLock lock(mutex_);
  if (num_taken_ == max_places_) {
    return ResourceExhausted("{} calls of Tokenize and Detokenize are open already", max_places_);
  }
  if (!tenant.empty()) {
    uint32_t& num_taken = by_tenant_[std::string(tenant)];
    if (num_taken == max_places_of_tenant_) {
      return ResourceExhausted(
          "{} calls of Tokenize and Detokenize of this tenant are open already",
          max_places_of_tenant_);
    }
    ++num_taken;
  }
  ++num_taken_;
  return absl::OkStatus();
}

void TextPlaces::GiveBack(std::string_view tenant) {
  MutexLock lock(mutex_);
  --num_taken_;
  if (tenant.empty()) return;
  const auto found = by_tenant_.find(std::string(tenant));
  if (--found->second == 0) by_tenant_.erase(found);
}

uint32_t TextPlaces::num_taken() const {
  MutexLock lock(mutex_);
  return num_taken_;
}

}  // namespace lockstep::router
