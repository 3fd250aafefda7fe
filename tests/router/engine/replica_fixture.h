#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/engine/replica.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/engine/fake_worker.h"

namespace lockstep::router::testing {

using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::FakeWorker;
using ::lockstep::testing::ManualLink;

// Tests let a worker die in every step that reads this token.
inline constexpr TokenId kPoison = 50;

inline const Instant kStart = Instant::After(absl::Seconds(1'000'000));
// After so long an idle replica looks whether its books add up.
inline constexpr absl::Duration kIdleCheck = absl::Milliseconds(100);

// A request on its way, and everything its reader has heard so far.
struct Client {
  std::shared_ptr<const Request> request;
  std::shared_ptr<Outbox> outbox;
  std::vector<std::vector<TokenId>> tokens;  // by sample
  std::vector<std::optional<SampleEnd>> ends;
  std::optional<RequestOutput::Start> admission;
  std::optional<absl::Status> end;
  int num_told = 0;  // how often its reader was told of news

  void Read() {
    RequestOutput output = outbox->Take();
    if (output.start.has_value()) admission = output.start;
    for (SampleOutput& sample : output.samples) {
      std::vector<TokenId>& all = tokens.at(sample.sample_index);
      all.insert(all.end(), sample.tokens.begin(), sample.tokens.end());
      if (sample.end.has_value()) ends.at(sample.sample_index) = sample.end;
    }
    if (output.end.has_value()) end = output.end;
  }
};

// A replica whose link, worker and clock are driven by hand.
class ReplicaTest : public ::testing::Test {
 protected:
  explicit ReplicaTest(WorkerOwner owner = WorkerOwner::kSelf, const FakeModelOptions& model = {})
      : metrics_(registry_, "fake"),
        worker_(model),
        link_(worker_),
        admission_(Admission::Make({})),
        replica_(ReplicaConfig{}, MakeFcfsPolicy(),
                 {.clock = &clock_,
                  .link = &link_,
                  .metrics = &metrics_,
                  .worker = "fake:1",
                  .owner = owner}) {}

  void Connect() {
    InboxBatch batch;
    batch.link_events.push_back(worker_.Claim());
    replica_.Process(std::move(batch));
  }

  void LoseWorker() {
    InboxBatch batch;
    batch.link_events.push_back(link_.Break(absl::UnavailableError("the stream broke")));
    replica_.Process(std::move(batch));
  }

  // `served`: a lease of another router lives.
  void Standby(const std::string& text, bool served = true) {
    InboxBatch batch;
    batch.link_events.push_back(LinkStandby{.text = text, .served = served});
    replica_.Process(std::move(batch));
  }

  // Greedy; the caller may ask for more before it submits it.
  std::shared_ptr<Request> MakeRequest(std::vector<TokenId> prompt, uint32_t max_new_tokens) {
    auto request = std::make_shared<Request>();
    request->key = next_key_++;
    request->id = "test";
    request->arrival = clock_.Now();
    request->deadline = deadline_;
    request->prompt_tokens = std::move(prompt);
    request->sampling.temperature = 0;
    request->sampling.max_new_tokens = max_new_tokens;
    return request;
  }
  std::unique_ptr<Client> Submit(std::shared_ptr<const Request> request,
                                 size_t max_pending_bytes = 1 << 20) {
    auto client = std::make_unique<Client>();
    client->request = request;
    client->outbox = std::make_shared<Outbox>(max_pending_bytes,
                                              [reader = client.get()] { ++reader->num_told; });
    client->tokens.resize(request->num_samples);
    client->ends.resize(request->num_samples);
    InboxBatch batch;
    Rejection rejection{};
    batch.submissions.push_back({.request = std::move(request),
                                 .outbox = client->outbox,
                                 .ticket = *admission_->TryAdmit(1, "", rejection)});
    replica_.Process(std::move(batch));
    return client;
  }
  std::unique_ptr<Client> Submit(std::vector<TokenId> prompt, uint32_t max_new_tokens,
                                 uint32_t num_samples = 1, size_t max_pending_bytes = 1 << 20) {
    const std::shared_ptr<Request> request = MakeRequest(std::move(prompt), max_new_tokens);
    request->num_samples = num_samples;
    return Submit(request, max_pending_bytes);
  }

  void CancelAll() {
    InboxBatch batch;
    batch.cancel_all = true;
    replica_.Process(std::move(batch));
  }

  void Cancel(const Client& client, CancelCause cause) {
    InboxBatch batch;
    batch.cancellations.push_back({.request = client.request->key, .cause = cause});
    replica_.Process(std::move(batch));
  }

  // Runs one step; false when none was sent.
  bool RunStep() {
    std::optional<LinkResult> result = link_.RunNext();
    if (!result.has_value()) return false;
    InboxBatch batch;
    batch.link_events.push_back(*std::move(result));
    replica_.Process(std::move(batch));
    return true;
  }
  void RunSteps(int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(RunStep());
  }
  void RunUntilIdle() {
    while (RunStep()) {
    }
  }

  void AdvanceBy(absl::Duration by) {
    clock_.Advance(by);
    replica_.Process({});
  }

  // Nothing is left of any request.
  void ExpectClean() {
    const ReplicaStatus status = replica_.board().status();
    EXPECT_EQ(status.live_requests, 0u);
    EXPECT_EQ(status.scheduler.used_blocks, 0u);
    EXPECT_EQ(status.scheduler.fenced_blocks, 0u);
    EXPECT_EQ(status.scheduler.free_blocks + status.scheduler.cached_blocks,
              status.worker_state == WorkerState::kReady ? FakeModelOptions().num_blocks : 0u);
    EXPECT_EQ(admission_->counts().waiting_requests, 0u);
  }

  double WorkerIs(WorkerState state) {
    return RouterMetrics::At(metrics_.ForWorker("fake:1").state, state).Value();
  }
  double NumRetried(RetryOutcome outcome) const {
    return RouterMetrics::At(metrics_.requests_retried_total, outcome).Value();
  }
  double NumFinished(FinishedAs how) const {
    return RouterMetrics::At(metrics_.requests_finished_total, how).Value();
  }

  FakeClock clock_{kStart};
  prometheus::Registry registry_;
  RouterMetrics metrics_;
  FakeWorker worker_;
  ManualLink link_;
  std::shared_ptr<Admission> admission_;
  Replica replica_;
  RequestKey next_key_ = 1;
  Instant deadline_ = Instant::InfiniteFuture();
};

}  // namespace lockstep::router::testing
