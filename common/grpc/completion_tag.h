#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

namespace lockstep {

// What a completion queue hands back: the object whose operation is over.
class CompletionTag {
 public:
  virtual void OnComplete(bool ok) = 0;

  // As a completion queue takes and returns it.
  void* id() { return this; }
  static CompletionTag& FromId(void* id) { return *static_cast<CompletionTag*>(id); }

 protected:
  ~CompletionTag() = default;
};

// A tag that calls a method of its owner.
template <typename Owner>
class MethodTag final : public CompletionTag {
 public:
  using Method = void (Owner::*)(bool ok);
  MethodTag(Owner* owner, Method method) : owner_(owner), method_(method) {}
  void OnComplete(bool ok) override { (owner_->*method_)(ok); }

 private:
  Owner* const owner_;
  const Method method_;
};

// The queue hands the tag back as soon as it can. The alarm may be set again once it did.
inline void RingNow(grpc::Alarm& alarm, grpc::CompletionQueue& queue, CompletionTag& tag) {
  // A time in the past, because "now" would be rounded up to a millisecond and left to a timer.
  alarm.Set(&queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), tag.id());
}

}  // namespace lockstep
