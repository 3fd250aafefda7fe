#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/runtime/mutex.h"
#include "router/mailboxes/submission.h"
#include "router/workers/step_link.h"

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

// What the loop must look at. Each kind is in order of arrival.
struct InboxBatch {
  std::vector<LinkEvent> link_events;
  std::vector<Handover> handovers;
  std::vector<Submission> submissions;
  std::vector<SequenceStop> stops;
  std::vector<Cancellation> cancellations;
  bool cancel_all = false;  // and take on nothing afterwards
  bool dismissed = false;   // nothing comes any more: give up the requests and the worker
};

// Where other threads leave messages for a replica's loop. Posting never waits. The senders keep it
// bounded: admission bounds submissions and handovers, a request is cancelled at most once, a
// sequence is stopped at most once, and there is at most one link event for each step in flight
// besides the start and the end of one lease.
class Inbox final : public LinkEventSink {
 public:
  // A post calls `on_post` if nothing was posted since the last Take. Wake counts as a post.
  // `on_post` must not block; null: nothing is called. A concurrent post may still invoke the
  // previous callback after this has returned.
  void SetOnPost(std::function<void()> on_post);

  void HandOver(Handover handover);
  void Submit(Submission submission);
  void Cancel(Cancellation cancellation);
  void Stop(SequenceStop stop);
  void CancelAll();
  void Dismiss();
  void OnLinkEvent(LinkEvent event) override;
  // There is something to do although no message came.
  void Wake();

  // Takes everything that came. May be empty.
  InboxBatch Take();

 private:
  template <typename Add>
  void Post(Add add);

  Mutex mutex_;
  std::shared_ptr<const std::function<void()>> on_post_ ABSL_GUARDED_BY(mutex_);
  InboxBatch batch_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // on_post_ was called since the last Take
};

}  // namespace lockstep::router
