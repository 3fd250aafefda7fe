#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <variant>

#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::router {

// The worker granted a lease; its epoch is higher than any before.
struct LinkUp {
  uint64_t epoch = 0;
  worker::v1::DescribeResponse description;
};
struct LinkResult {
  worker::v1::StepResult result;
};
// The lease is over, or an attempt to get one failed (epoch 0). FAILED_PRECONDITION: there is a
// worker, but it does not fit (another model, another protocol).
struct LinkDown {
  uint64_t epoch = 0;
  absl::Status reason;
};
using LinkEvent = std::variant<LinkUp, LinkResult, LinkDown>;

class LinkEventSink {
 public:
  virtual ~LinkEventSink() = default;
  // From a thread of the link's, one at a time; never blocks, nor calls the link.
  virtual void OnLinkEvent(LinkEvent event) = 0;
};

// The stream of steps to one worker. Connects, claims and reconnects on its own; at most one lease
// is up at a time. All methods may be called from any thread and never block, Stop excepted.
class StepLink {
 public:
  virtual ~StepLink() = default;
  // Starts connecting. `sink` must outlive the link or its Stop.
  virtual void Start(LinkEventSink* sink) = 0;
  // In order. A step of a lease that is over is dropped: its LinkDown is on the way.
  virtual void Send(worker::v1::StepRequest request) = 0;
  // The replica gives up the lease of `epoch` (hung worker, broken contract). No LinkDown need
  // follow.
  virtual void DropLease(uint64_t epoch, const absl::Status& reason) = 0;
  // Ends the lease and waits until no more event can come.
  virtual void Stop() = 0;
};

}  // namespace lockstep::router
