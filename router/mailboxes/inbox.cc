#include "router/mailboxes/inbox.h"

#include <utility>

namespace lockstep::router {

template <typename Add>
void Inbox::Post(Add add) {
  std::shared_ptr<const std::function<void()>> on_post;
  {
    MutexLock lock(mutex_);
    add(batch_);
    if (on_post_ != nullptr && !std::exchange(told_, true)) on_post = on_post_;
  }
  if (on_post != nullptr) (*on_post)();
}

void Inbox::SetOnPost(std::function<void()> on_post) {
  std::shared_ptr<const std::function<void()>> shared;
  if (on_post != nullptr) {
    shared = std::make_shared<const std::function<void()>>(std::move(on_post));
  }
  MutexLock lock(mutex_);
  on_post_ = std::move(shared);
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

void Inbox::Dismiss() {
  Post([](InboxBatch& batch) { batch.dismissed = true; });
}

void Inbox::OnLinkEvent(LinkEvent event) {
  Post([&](InboxBatch& batch) { batch.link_events.push_back(std::move(event)); });
}

void Inbox::Wake() {
  Post([](InboxBatch&) {});
}

InboxBatch Inbox::Take() {
  MutexLock lock(mutex_);
  told_ = false;
  return std::exchange(batch_, {});
}

}  // namespace lockstep::router
