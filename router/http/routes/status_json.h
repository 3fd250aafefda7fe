#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/runtime/mutex.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// The body of /status.json (docs/api.md). Made at most once for each sample and tenant. Safe to use
// from any thread.
class StatusJson {
 public:
  // `context` must outlive the object.
  explicit StatusJson(const ApiContext& context) : context_(context) {}

  // Everything: for operators, and if no keys are required.
  std::string OfFleet();
  // A tenant's own requests.
  std::string OfTenant(std::string_view tenant);

 private:
  std::string Cached(std::string_view key, std::string (StatusJson::*make)(std::string_view) const);
  std::string MakeFleet(std::string_view) const;
  std::string MakeTenant(std::string_view tenant) const;

  const ApiContext& context_;
  Mutex mutex_;
  uint64_t sample_ ABSL_GUARDED_BY(mutex_) = 0;  // the sample of the texts in kept_
  std::map<std::string, std::string> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
