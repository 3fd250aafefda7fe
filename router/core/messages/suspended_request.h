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
// A request between two schedulers: everything that is known about it, and nothing about a worker.
using SuspendedRequest = std::unique_ptr<LiveRequest, LiveRequestDeleter>;

// A request that may make progress on another scheduler. None of its sequences runs or is in
// flight, and its own scheduler has no worker that may start it.
struct StrandedRequest {
  std::shared_ptr<const Request> request;
  std::span<const TokenId> known_tokens;  // of its first live sample; valid until the next change
  bool has_output = false;                // its output must continue with the same bits
  bool suspect = false;            // workers were lost while they ran it, so it must run alone
  uint32_t max_cached_tokens = 0;  // how many of `known_tokens` a cached prefix may cover
};

}  // namespace lockstep::router
