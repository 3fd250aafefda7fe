#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/runtime/mutex.h"

namespace lockstep::router {

// The places for open Tokenize and Detokenize calls. One tenant has at most a quarter of them, so
// that at least four tenants can call. Safe to use from any thread.
class TextPlaces {
 public:
  explicit TextPlaces(uint32_t max_places);

  // RESOURCE_EXHAUSTED if no place is left, in total or for the tenant. Calls without a tenant ("")
  // may take all places.
  absl::Status Take(std::string_view tenant);
  void GiveBack(std::string_view tenant);

  uint32_t num_taken() const;

 private:
  const uint32_t max_places_;
  const uint32_t max_places_of_tenant_;
  mutable Mutex mutex_;
  uint32_t num_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, uint32_t> by_tenant_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
