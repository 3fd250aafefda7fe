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

// What a board shows of a request. No text of it.
struct RequestView {
  std::string id;
  RequestState state = RequestState::kWaiting;  // running: it has a token
  absl::Duration age;  // since it came; of one that ended, how long it took
  uint32_t num_prompt_tokens = 0;
  uint32_t num_output_tokens = 0;
  absl::Duration first_token = absl::InfiniteDuration();  // after it came; infinite: none yet
};

// The requests of a router, for people who look: those that are open, and the slowest of those that
// ended within the last minutes. Costs a request two short locks and a token nothing. Safe to use
// from any thread.
class RequestBoard {
 public:
  static constexpr absl::Duration kKept = absl::Minutes(5);  // after its end
  static constexpr size_t kMaxEnded = 256;

  // A request's own place. Its call alone writes to it.
  class Entry {
   public:
    // `count` more tokens, told at `now`.
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

  // `tenant`: empty: nobody's.
  std::shared_ptr<Entry> Enter(std::string id, std::string_view tenant, uint32_t num_prompt_tokens,
                               Instant now);
  void Leave(const std::shared_ptr<Entry>& entry, bool ok, Instant now);

  // The slowest, those that took longest first, at most `max_count`. With a tenant: of its own
  // alone.
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
