#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"

namespace lockstep::router {

enum class RequestState { kWaiting, kRunning, kDone, kFailed };
std::string_view RequestStateName(RequestState state);

// What a board shows about a request. It shows no text of the request.
struct RequestView {
  std::string id;
  RequestState state = RequestState::kWaiting;  // kRunning: it has a token
  absl::Duration age;                           // since arrival; after the end: how long it took
  uint32_t num_prompt_tokens = 0;
  uint32_t num_output_tokens = 0;
  absl::Duration first_token = absl::InfiniteDuration();  // since arrival; infinite: none yet
};

// The requests of a router, for people who look at it: the open requests, and the slowest requests
// that ended within the last minutes. Costs a request two short locks, and a token none. Safe to
// use from any thread.
class RequestBoard {
 public:
  static constexpr absl::Duration kKept = absl::Minutes(5);  // after the end of a request
  static constexpr size_t kMaxEnded = 256;

  // The record of one request. Only its call writes to it.
  class Entry {
   public:
    // Adds `count` tokens that were delivered at `now`.
    void AddOutput(uint32_t count, Instant now);

   private:
    friend class RequestBoard;
    std::string id_;
    std::string tenant_;
    Instant arrival_;
    uint32_t num_prompt_tokens_ = 0;
    std::atomic<uint32_t> num_output_tokens_ = 0;
    std::atomic<int64_t> first_token_ns_ = -1;
  };

  // `tenant`: empty if there is none.
  std::shared_ptr<Entry> Enter(std::string id, std::string_view tenant, uint32_t num_prompt_tokens,
                               Instant now);
  void Leave(const std::shared_ptr<Entry>& entry, bool ok, Instant now);

  // At most `max_count` requests, the slowest first. SlowestOf: only those of the tenant.
  std::vector<RequestView> Slowest(size_t max_count, Instant now) const;
  std::vector<RequestView> SlowestOf(std::string_view tenant, size_t max_count, Instant now) const;

 private:
  struct Ended {
    std::string tenant;
    Instant ended_at;
    RequestView view;
  };

  static RequestView ViewOf(const Entry& entry, Instant now);
  void Keep(Ended ended, Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<RequestView> Collect(const std::string_view* tenant, size_t max_count,
                                   Instant now) const;

  mutable Mutex mutex_;
  std::set<std::shared_ptr<Entry>> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
