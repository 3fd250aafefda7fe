#include "router/engine/inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::router {

template <typename Add>
void Inbox::Post(Add add) {
  {
    MutexLock lock(mutex_);
    add(batch_);
    awake_ = true;
  }
  posted_.NotifyOne();
  if (on_post_ != nullptr) on_post_();
}

void Inbox::HandOver(Handover handover) {
  Post([&](InboxBatch& batch) { batch.handovers.push_back(std::move(handover)); });
}

void Inbox::Submit(Submission submission) {
  Post([&](InboxBatch& batch) { batch.submissions.push_back(std::move(submission)); });
}

void Inbox::Cancel(Cancellation cancellation) {
  Post([&](InboxBatch& batch) { batch.cancellations.push_back(cancellation); });
}

void Inbox::Stop(SequenceStop stop) {
  Post([&](InboxBatch& batch) { batch.stops.push_back(stop); });
}

void Inbox::CancelAll() {
  Post([](InboxBatch& batch) { batch.cancel_all = true; });
}

void Inbox::Retire() {
  Post([](InboxBatch& batch) { batch.retire = true; });
}

void Inbox::OnLinkEvent(LinkEvent event) {
  Post([&](InboxBatch& batch) { batch.link_events.push_back(std::move(event)); });
}

void Inbox::Wake() {
  Post([](InboxBatch&) {});
}

InboxBatch Inbox::Wait(absl::Duration timeout) {
  // A wait of a day is as good as any longer one and cannot overflow the system's clock.
  const auto deadline = std::chrono::steady_clock::now() +
                        absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24)));
  MutexLock lock(mutex_);
  while (!awake_) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) break;
    posted_.WaitFor(mutex_, left);
  }
  awake_ = false;
  return std::exchange(batch_, {});
}

void Inbox::Clear() {
  MutexLock lock(mutex_);
  awake_ = false;
  batch_ = {};
}

}  // namespace lockstep::router
