#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::router {

struct AdmissionLimits {
  uint32_t max_waiting_requests = 1024;    // without a slot yet; including requests being tokenized
  uint64_t max_waiting_tokens = 4u << 20;  // their prompt tokens
  uint32_t max_open_requests = 4096;       // until the client has the last byte

  absl::Status Validate() const;
};

// Why a request is refused. The first five come before any work on it. The last two come from the
// scheduler: the queue would take too long for the request's deadline, or for the router's limit on
// the time to the first token.
enum class Rejection {
  kQueueRequests,
  kQueueTokens,
  kOpenRequests,
  kDraining,
  kNoWorker,
  kDeadline,
  kFirstToken
};

// Counts the requests that the router has promised to work on, before it checks or tokenizes them.
// So an overload is refused while a request has cost little. An owner (a tenant) may have as many
// requests waiting and open as there are free places. So one owner alone takes half of the places,
// and others still find some. Safe to use from any thread.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  // A request's place in the counts. The destructor gives everything back. Keeps the Admission
  // alive.
  class Ticket {
   public:
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket();

    // The prompt's exact length replaces the estimate.
    void SetPromptTokens(uint64_t num_tokens);
    // The request got a slot, or will never get one.
    void StopWaiting();

   private:
    friend class Admission;
    Ticket(std::shared_ptr<Admission> admission, std::string_view owner, uint64_t num_tokens)
        : admission_(std::move(admission)), owner_(owner), num_tokens_(num_tokens) {}

    const std::shared_ptr<Admission> admission_;
    const std::string owner_;
    uint64_t num_tokens_;  // guarded by admission_->mutex_
    bool waiting_ = true;  // guarded by admission_->mutex_
  };

  struct Counts {
    uint32_t waiting_requests = 0, open_requests = 0;
    uint64_t waiting_tokens = 0;
  };

  static std::shared_ptr<Admission> Make(AdmissionLimits limits) {
    return std::shared_ptr<Admission>(new Admission(limits));
  }

  // RESOURCE_EXHAUSTED names the limit that would be exceeded, and sets `rejection`.
  // INVALID_ARGUMENT if these tokens alone exceed the limit. An empty owner has no share: only the
  // limits for all apply.
  absl::StatusOr<std::shared_ptr<Ticket>> TryAdmit(uint64_t estimated_tokens,
                                                   std::string_view owner, Rejection& rejection);
  // INVALID_ARGUMENT names the limit if this many requests of one owner, admitted one by one, would
  // not fit even into an empty queue. `num_requests`: at least 2.
  absl::Status CheckBatch(uint64_t num_requests, uint64_t estimated_tokens,
                          std::string_view owner) const;
  Counts counts() const;
  // Waits until nothing is open. Returns false if the time ran out.
  bool WaitUntilNoneOpen(absl::Duration timeout) const;

 private:
  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  // Call after the limits for all were checked.
  absl::Status CheckShare(uint64_t estimated_tokens, std::string_view owner,
                          Rejection& rejection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds modulo 2^64, so that a negative difference gives the right sum.
  void CountTokens(const std::string& owner, uint64_t num_tokens)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AdmissionLimits limits_;
  mutable Mutex mutex_;
  mutable CondVar none_open_;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  // Only owners with an open request.
  std::map<std::string, Counts, std::less<>> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
