#include "router/engine/admission.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <memory>
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
  const Ticket first = *admission->TryAdmit(1, rejection);
  const Ticket second = *admission->TryAdmit(1, rejection);
  const auto third = admission->TryAdmit(1, rejection);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rejection, Rejection::kQueueRequests);
  first->StopWaiting();
  first->StopWaiting();  // once is enough
  EXPECT_TRUE(admission->TryAdmit(1, rejection).ok());
}

TEST(AdmissionTest, CountsTokensAsEstimatedThenAsCounted) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  const Ticket first = *admission->TryAdmit(60, rejection);
  EXPECT_FALSE(admission->TryAdmit(41, rejection).ok());
  EXPECT_EQ(rejection, Rejection::kQueueTokens);
  EXPECT_TRUE(admission->TryAdmit(40, rejection).ok());
  first->SetPromptTokens(10);
  EXPECT_EQ(admission->counts().waiting_tokens, 10u);
  EXPECT_TRUE(admission->TryAdmit(90, rejection).ok());
  first->StopWaiting();
  EXPECT_EQ(admission->counts().waiting_tokens, 0u);
  first->SetPromptTokens(50);  // counts nothing any more
  EXPECT_EQ(admission->counts().waiting_tokens, 0u);
}

TEST(AdmissionTest, OneRequestLargerThanTheQueueIsRefusedForGood) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  EXPECT_TRUE(admission->TryAdmit(100, rejection).ok());
  for (const uint64_t num_tokens : {uint64_t{101}, ~uint64_t{0}}) {
    const absl::Status status = admission->TryAdmit(num_tokens, rejection).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(rejection, Rejection::kQueueTokens);
  }
}

TEST(AdmissionTest, CountsOpenRequestsUntilTheTicketIsGone) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(*admission->TryAdmit(1, rejection));
    tickets.back()->StopWaiting();
  }
  EXPECT_FALSE(admission->TryAdmit(1, rejection).ok());
  EXPECT_EQ(rejection, Rejection::kOpenRequests);
  EXPECT_FALSE(admission->WaitUntilNoneOpen(absl::ZeroDuration()));
  tickets.pop_back();
  EXPECT_TRUE(admission->TryAdmit(1, rejection).ok());
  tickets.clear();
  EXPECT_TRUE(admission->WaitUntilNoneOpen(absl::ZeroDuration()));
  EXPECT_EQ(admission->counts().open_requests, 0u);
}

TEST(AdmissionTest, WaitingEndsWithTheLastTicket) {
  const auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  Ticket ticket = *admission->TryAdmit(1, rejection);
  std::thread releaser([&ticket] { ticket.reset(); });
  EXPECT_TRUE(admission->WaitUntilNoneOpen(absl::Seconds(60)));
  releaser.join();
}

TEST(AdmissionTest, TicketsOutliveTheirAdmission) {
  auto admission = Admission::Make(kLimits);
  Rejection rejection{};
  const Ticket ticket = *admission->TryAdmit(1, rejection);
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
