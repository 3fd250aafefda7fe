#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/mutex.h"
#include "router/engine/step_link.h"
#include "router/engine/submission.h"

namespace lockstep::router {

enum class CancelCause { kClient, kAborted, kShutdown };

struct Cancellation {
  RequestKey request = 0;
  CancelCause cause = CancelCause::kClient;
};

struct SequenceStop {
  RequestKey request = 0;
  uint32_t sample_index = 0;
};

// What the loop has to look at, each kind in the order of its coming.
struct InboxBatch {
  std::vector<LinkEvent> link_events;
  std::vector<Handover> handovers;
  std::vector<Submission> submissions;
  std::vector<SequenceStop> stops;
  std::vector<Cancellation> cancellations;
  bool cancel_all = false;  // and nothing is taken on afterwards
  bool retire = false;      // nothing comes any more: give up what is here, and the worker
};

// Where other threads leave messages for a replica's loop; none of them ever waits. Bounded by what
// sends: admission bounds submissions and what is handed over, a request is cancelled and each of
// its sequences stopped at most once, and link events are at most one per step in flight plus the
// ups and downs of one lease.
class Inbox final : public LinkEventSink {
 public:
  // For a loop that does not Wait: `on_post` is called after every post, by whoever posts, and must
  // not block. Set before anything is posted.
  void set_on_post(std::function<void()> on_post) { on_post_ = std::move(on_post); }

  void HandOver(Handover handover);
  void Submit(Submission submission);
  void Cancel(Cancellation cancellation);
  void Stop(SequenceStop stop);
  void CancelAll();
  void Retire();
  void OnLinkEvent(LinkEvent event) override;
  // Ends the current or the next Wait, with whatever there is.
  void Wake();

  // Everything that came; waits for something, a Wake, or for `timeout`.
  InboxBatch Wait(absl::Duration timeout);
  // Forgets what a loop that has ended left unread.
  void Clear();

 private:
  template <typename Add>
  void Post(Add add);

  std::function<void()> on_post_;  // null: none
  Mutex mutex_;
  CondVar posted_;
  InboxBatch batch_ ABSL_GUARDED_BY(mutex_);
  bool awake_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
