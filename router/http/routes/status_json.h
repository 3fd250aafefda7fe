#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/runtime/mutex.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// What /status.json answers (docs/api.md). It is made at most once for each sample and whom it is
// for, however often it is asked for. Safe to use from any thread.
class StatusJson {
 public:
  // `context` must outlive the object.
  explicit StatusJson(const ApiContext& context) : context_(context) {}

  // Everything, for those who operate the router, or where nobody has a key.
  std::string OfFleet();
  // A tenant's own requests.
  std::string OfTenant(std::string_view tenant);

 private:
  std::string Cached(std::string_view key, std::string (StatusJson::*make)(std::string_view) const);
  std::string MakeFleet(std::string_view) const;
  std::string MakeTenant(std::string_view tenant) const;

  const ApiContext& context_;
  Mutex mutex_;
  uint64_t sample_ ABSL_GUARDED_BY(mutex_) = 0;  // that what is kept belongs to
  std::map<std::string, std::string> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
