#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/ids.h"
#include "router/core/messages/request.h"

namespace lockstep::router {

struct LiveRequest;
struct LiveRequestDeleter {
  void operator()(LiveRequest* live) const;
};
// A request between two schedulers: everything that is known of it, and nothing of a worker.
using SuspendedRequest = std::unique_ptr<LiveRequest, LiveRequestDeleter>;

// A request that another scheduler might get further with: nothing of it runs or is in flight, and
// its own has no worker that may start it.
struct StrandedRequest {
  std::shared_ptr<const Request> request;
  std::span<const TokenId> known_tokens;  // of its first live sample; valid until the next change
  bool has_output = false;                // its bits must go on as they began
  bool suspect = false;                   // workers were lost over it: it must run alone
  uint32_t max_cached_tokens = 0;         // of these, a cached prefix may save so many
};

}  // namespace lockstep::router
