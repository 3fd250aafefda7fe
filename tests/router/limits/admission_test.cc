#include "router/limits/admission.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::router {
namespace {

using Ticket = std::shared_ptr<Admission::Ticket>;

const AdmissionLimits kLimits = {
    .max_waiting_requests = 2, .max_waiting_tokens = 100, .max_open_requests = 3};

TEST(AdmissionTest, CountsRequestsUntilTheyStopWaiting) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  const Ticket first = *admission->TryAdmit(1, "", rejection);
  const Ticket second = *admission->TryAdmit(1, "", rejection);
  const auto third = admission->TryAdmit(1, "", rejection);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rejection, Rejection::kQueueRequests);
  first->StopWaiting();
  first->StopWaiting();  // once is enough
  EXPECT_TRUE(admission->TryAdmit(1, "", rejection).ok());
}

TEST(AdmissionTest, CountsTokensAsEstimatedThenAsCounted) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  const Ticket first = *admission->TryAdmit(60, "", rejection);
  EXPECT_FALSE(admission->TryAdmit(41, "", rejection).ok());
  EXPECT_EQ(rejection, Rejection::kQueueTokens);
  EXPECT_TRUE(admission->TryAdmit(40, "", rejection).ok());
  first->SetPromptTokens(10);
  EXPECT_EQ(admission->counts().waiting_tokens, 10u);
  EXPECT_TRUE(admission->TryAdmit(90, "", rejection).ok());
  first->StopWaiting();
  EXPECT_EQ(admission->counts().waiting_tokens, 0u);
  first->SetPromptTokens(50);  // counts nothing any more
  EXPECT_EQ(admission->counts().waiting_tokens, 0u);
}

TEST(AdmissionTest, OneRequestLargerThanTheQueueIsRefusedForGood) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  EXPECT_TRUE(admission->TryAdmit(100, "", rejection).ok());
  for (const uint64_t num_tokens : {uint64_t{101}, ~uint64_t{0}}) {
    const absl::Status status = admission->TryAdmit(num_tokens, "", rejection).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(rejection, Rejection::kQueueTokens);
  }
}

TEST(AdmissionTest, OneOwnerLeavesPlacesForOthers) {
  const auto admission = Admission::Make(
      {.max_waiting_requests = 8, .max_waiting_tokens = 1000, .max_open_requests = 100});
  Rejection rejection{};
  std::vector<Ticket> first, second;
  for (int i = 0; i < 4; ++i) first.push_back(*admission->TryAdmit(1, "first", rejection));
  const absl::Status refused = admission->TryAdmit(1, "first", rejection).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rejection, Rejection::kQueueRequests);
  // Each of them has as many as are left, or one.
  for (int i = 0; i < 2; ++i) second.push_back(*admission->TryAdmit(1, "second", rejection));
  EXPECT_FALSE(admission->TryAdmit(1, "second", rejection).ok());
  EXPECT_TRUE(admission->TryAdmit(1, "third", rejection).ok());
  // Nobody in particular is bound by the whole queue.
  const Ticket one = *admission->TryAdmit(1, "", rejection);
  const Ticket two = *admission->TryAdmit(1, "", rejection);
  EXPECT_FALSE(admission->TryAdmit(1, "third", rejection).ok());
}

TEST(AdmissionTest, OpenRequestsOfOneOwnerLeaveRoomForOthers) {
  const auto admission = Admission::Make(
      {.max_waiting_requests = 100, .max_waiting_tokens = 1000, .max_open_requests = 6});
  Rejection rejection{};
  std::vector<Ticket> open;
  // They are cancelled, and not yet let go of.
  const auto open_one = [&](const char* owner) {
    open.push_back(*admission->TryAdmit(1, owner, rejection));
    open.back()->StopWaiting();
  };
  for (int i = 0; i < 3; ++i) open_one("first");
  const absl::Status refused = admission->TryAdmit(1, "first", rejection).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rejection, Rejection::kOpenRequests);
  EXPECT_EQ(refused.message(), "3 requests of tenant \"first\" are open, which is its share");
  open_one("second");
  // Nobody in particular is bound by the limit alone.
  open_one("");
  // The first one of an owner passes while there is a place at all.
  open_one("third");
  EXPECT_FALSE(admission->TryAdmit(1, "fourth", rejection).ok());
  open.clear();
  for (int i = 0; i < 3; ++i) open_one("first");
}

TEST(AdmissionTest, TokensOfOneOwnerLeaveRoomForOthers) {
  const auto admission = Admission::Make(
      {.max_waiting_requests = 100, .max_waiting_tokens = 1000, .max_open_requests = 100});
  Rejection rejection{};
  // One request is within the share, however large.
  Ticket large = *admission->TryAdmit(900, "first", rejection);
  EXPECT_FALSE(admission->TryAdmit(50, "first", rejection).ok());
  EXPECT_EQ(rejection, Rejection::kQueueTokens);
  EXPECT_TRUE(admission->TryAdmit(50, "second", rejection).ok());
  large->SetPromptTokens(100);
  // With the new request an owner has at most what is left: half of all, if it is alone.
  EXPECT_FALSE(admission->TryAdmit(401, "first", rejection).ok());
  const Ticket another = *admission->TryAdmit(400, "first", rejection);
  EXPECT_FALSE(admission->TryAdmit(1, "first", rejection).ok());
  large->StopWaiting();
  EXPECT_TRUE(admission->TryAdmit(100, "first", rejection).ok());
  another->StopWaiting();
  // An owner with open requests of which none waits may have one that is large.
  EXPECT_TRUE(admission->TryAdmit(900, "first", rejection).ok());
  EXPECT_EQ(admission->counts().waiting_tokens, 0u);
}

// How many requests of `num_tokens` each one owner has room for, if it is alone.
uint32_t NumAdmitted(const AdmissionLimits& limits, uint64_t num_tokens, std::string_view owner) {
  const auto admission = Admission::Make(limits);
  Rejection rejection{};
  std::vector<Ticket> tickets;
  while (true) {
    auto ticket = admission->TryAdmit(num_tokens, owner, rejection);
    if (!ticket.ok()) return static_cast<uint32_t>(tickets.size());
    tickets.push_back(*std::move(ticket));
  }
}

TEST(AdmissionTest, ABatchThatNeverHasRoomIsToldSo) {
  for (const std::string_view owner : {"", "first"}) {
    for (uint32_t limit = 3; limit < 20; ++limit) {
      // The bound is that of requests that wait, of open requests, or of tokens.
      for (const AdmissionLimits& limits :
           {AdmissionLimits{.max_waiting_requests = limit},
            AdmissionLimits{.max_open_requests = limit},
            AdmissionLimits{.max_waiting_tokens = uint64_t{10} * limit}}) {
        const uint64_t num_tokens = 10;
        const uint32_t num_admitted = NumAdmitted(limits, num_tokens, owner);
        if (num_admitted < 2) continue;
        const auto admission = Admission::Make(limits);
        EXPECT_TRUE(admission->CheckBatch(num_admitted, num_admitted * num_tokens, owner).ok());
        const absl::Status status =
            admission->CheckBatch(num_admitted + 1, (num_admitted + 1) * num_tokens, owner);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << owner << limit;
      }
    }
  }
  const auto admission = Admission::Make({.max_waiting_requests = 8, .max_waiting_tokens = 100});
  EXPECT_EQ(admission->CheckBatch(5, 5, "first").message(),
            "prompt: 5 prompts, at most 4 may wait");
  EXPECT_EQ(admission->CheckBatch(2, 51, "first").message(),
            "prompt: about 51 tokens in 2 prompts, at most 50 may wait");
}

TEST(AdmissionTest, CountsOpenRequestsUntilTheTicketIsGone) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(*admission->TryAdmit(1, "", rejection));
    tickets.back()->StopWaiting();
  }
  EXPECT_FALSE(admission->TryAdmit(1, "", rejection).ok());
  EXPECT_EQ(rejection, Rejection::kOpenRequests);
  EXPECT_FALSE(admission->WaitUntilNoneOpen(absl::ZeroDuration()));
  tickets.pop_back();
  EXPECT_TRUE(admission->TryAdmit(1, "", rejection).ok());
  tickets.clear();
  EXPECT_TRUE(admission->WaitUntilNoneOpen(absl::ZeroDuration()));
  EXPECT_EQ(admission->counts().open_requests, 0u);
}

TEST(AdmissionTest, WaitingEndsWithTheLastTicket) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  Ticket ticket = *admission->TryAdmit(1, "", rejection);
  std::thread releaser([&ticket] { ticket.reset(); });
  EXPECT_TRUE(admission->WaitUntilNoneOpen(absl::Seconds(60)));
  releaser.join();
}

TEST(AdmissionTest, TicketsOutliveTheirAdmission) {
  auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  const Ticket ticket = *admission->TryAdmit(1, "", rejection);
  admission.reset();
  ticket->StopWaiting();
}

TEST(AdmissionLimitsTest, ReportsEveryViolation) {
  EXPECT_TRUE(AdmissionLimits{}.Validate().ok());
  const absl::Status status =
      AdmissionLimits{.max_waiting_requests = 0, .max_waiting_tokens = 0, .max_open_requests = 0}
          .Validate();
  EXPECT_EQ(status.message(),
            "max_waiting_requests: must be at least 1; max_waiting_tokens: must be at least 1; "
            "max_open_requests: must be at least 1");
}

}  // namespace
}  // namespace lockstep::router
