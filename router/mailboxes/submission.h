#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "router/limits/admission.h"
#include "router/mailboxes/outbox.h"
#include "router/tracing/request_trace.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// A request and where its output goes.
struct Submission {
  std::shared_ptr<const Request> request;
  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<Admission::Ticket> ticket;
  std::shared_ptr<RequestTrace> trace = nullptr;  // null: the request is not recorded
};

// What a request's client has been given so far.
struct Delivery {
  struct Sample {
    Instant first_token_at = Instant::InfiniteFuture();
    Instant last_token_at = Instant::InfiniteFuture();
    uint32_t num_tokens = 0;
  };

  Submission submission;
  std::vector<Sample> samples;
  uint32_t num_open_samples = 0;
  bool started = false;
  bool lost_worker = false;                        // and has no new one yet
  Instant started_at = Instant::InfiniteFuture();  // in its first slot
  absl::Status end_status;                         // set when its sequences have ended
};

// A request that moves from a replica without a worker to a replica that has one, or may soon have
// one.
struct Handover {
  SuspendedRequest suspended;
  Delivery delivery;
  std::optional<WorkerBits> bits;  // its output began with these bits; none: any will do
  uint32_t num_hops = 0;           // how many replicas in a row could not take it
};

}  // namespace lockstep::router
