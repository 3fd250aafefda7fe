#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <variant>

#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::router {

// The worker granted a lease. Its epoch is higher than any before.
struct LinkUp {
  uint64_t epoch = 0;
  worker::v1::DescribeResponse description;
};
struct LinkResult {
  worker::v1::StepResult result;
};
// The lease is over, or an attempt to get one failed (epoch 0). FAILED_PRECONDITION: a worker is
// there but does not fit (another model, another protocol).
struct LinkDown {
  uint64_t epoch = 0;
  absl::Status reason;
};
// There is no lease, and the router does not want one now: the worker belongs to another router.
struct LinkStandby {
  std::string text;     // one line for people: who serves the worker
  bool served = false;  // a lease of another router lives
};
using LinkEvent = std::variant<LinkUp, LinkResult, LinkDown, LinkStandby>;

class LinkEventSink {
 public:
  virtual ~LinkEventSink() = default;
  // Called on the link's threads, one call at a time. Must not block and must not call the link.
  virtual void OnLinkEvent(LinkEvent event) = 0;
};

// The stream of steps to one worker. Connects, claims and reconnects on its own. At most one lease
// is up at a time. All methods may be called from any thread. None blocks, except Stop.
class StepLink {
 public:
  virtual ~StepLink() = default;
  // Starts connecting. `sink` must live until the link is stopped or destroyed.
  virtual void Start(LinkEventSink* sink) = 0;
  // Sends steps in order. A step of a lease that is over is dropped; the LinkDown of this lease is
  // on its way.
  virtual void Send(worker::v1::StepRequest request) = 0;
  // The replica gives up the lease of `epoch` (the worker hung or broke the contract). A LinkDown
  // may or may not follow.
  virtual void DropLease(uint64_t epoch, const absl::Status& reason) = 0;
  // The router is about to end. The link claims no further worker that belongs to another router. A
  // lease that it holds goes on.
  virtual void LeaveOrphans() {}
  // Ends the lease and waits until no more event can come.
  virtual void Stop() = 0;
};

}  // namespace lockstep::router
