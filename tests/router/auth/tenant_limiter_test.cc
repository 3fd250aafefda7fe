#include "router/auth/tenant_limiter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

const Instant kStart = Instant::After(absl::Seconds(1'000'000));

TEST(TokenBucketTest, IsFullAtFirstAndFillsAtItsRate) {
  TokenBucket bucket(/*burst=*/100, kStart);
  EXPECT_EQ(bucket.Wait(10, 100, kStart), absl::ZeroDuration());
  bucket.Spend(150);
  EXPECT_EQ(bucket.Wait(10, 100, kStart), absl::Seconds(5));
  EXPECT_EQ(bucket.Wait(10, 100, kStart + absl::Seconds(2)), absl::Seconds(3));
  EXPECT_EQ(bucket.Wait(10, 100, kStart + absl::Seconds(6)), absl::ZeroDuration());
}

TEST(TokenBucketTest, HoldsNoMoreThanTheBurst) {
  TokenBucket bucket(100, kStart);
  EXPECT_EQ(bucket.Wait(10, 100, kStart + absl::Hours(1)), absl::ZeroDuration());
  bucket.Spend(101);
  EXPECT_GT(bucket.Wait(10, 100, kStart + absl::Hours(1)), absl::ZeroDuration());
}

TEST(TokenBucketTest, GivesNothingForAClockThatGoesBack) {
  TokenBucket bucket(10, kStart);
  bucket.Spend(20);
  EXPECT_EQ(bucket.Wait(10, 10, kStart - absl::Hours(1)), absl::Seconds(1));
  EXPECT_EQ(bucket.Wait(10, 10, kStart), absl::Seconds(1));
}

TEST(TenantLimiterTest, AdmitsAnyNumberWithoutLimits) {
  TenantLimiter limiter;
  const Tenant tenant = {.name = "free"};
  std::vector<std::unique_ptr<TenantLimiter::Ticket>> tickets;
  for (int i = 0; i < 100; ++i) {
    TenantLimiter::Admission admission = limiter.Admit(tenant, kStart);
    ASSERT_NE(admission.ticket, nullptr) << admission.refusal;
    admission.ticket->Charge(1e9);
    tickets.push_back(std::move(admission.ticket));
  }
}

TEST(TenantLimiterTest, RefusesBeyondTheOpenRequestsOfOneTenantOnly) {
  TenantLimiter limiter;
  const Tenant tenant = {.name = "two", .max_open_requests = 2};
  TenantLimiter::Admission first = limiter.Admit(tenant, kStart);
  const TenantLimiter::Admission second = limiter.Admit(tenant, kStart);
  const TenantLimiter::Admission third = limiter.Admit(tenant, kStart);
  EXPECT_NE(second.ticket, nullptr);
  EXPECT_EQ(third.ticket, nullptr);
  EXPECT_EQ(third.refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(Message(third.refusal).find("\"two\" has 2 requests open"), std::string::npos);
  EXPECT_NE(limiter.Admit({.name = "other", .max_open_requests = 2}, kStart).ticket, nullptr);
  first.ticket.reset();
  EXPECT_NE(limiter.Admit(tenant, kStart).ticket, nullptr);
}

TEST(TenantLimiterTest, RefusesUntilWhatWasSpentIsPaid) {
  TenantLimiter limiter;
  const Tenant tenant = {.name = "slow", .tokens_per_second = 100, .burst_tokens = 200};
  const TenantLimiter::Admission first = limiter.Admit(tenant, kStart);
  ASSERT_NE(first.ticket, nullptr);
  first.ticket->Charge(150);
  first.ticket->Charge(250);
  const TenantLimiter::Admission early = limiter.Admit(tenant, kStart + absl::Seconds(1));
  EXPECT_EQ(early.ticket, nullptr);
  EXPECT_EQ(early.refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(early.retry_after, absl::Seconds(1));
  EXPECT_NE(limiter.Admit(tenant, kStart + absl::Seconds(2.1)).ticket, nullptr);
}

TEST(TenantLimiterTest, AnEndedRequestLeavesItsDebt) {
  TenantLimiter limiter;
  const Tenant tenant = {.name = "slow", .tokens_per_second = 1, .burst_tokens = 1};
  limiter.Admit(tenant, kStart).ticket->Charge(11);
  EXPECT_EQ(limiter.Admit(tenant, kStart).retry_after, absl::Seconds(10));
}

TEST(TenantLimiterTest, LimitsMayChange) {
  TenantLimiter limiter;
  Tenant tenant = {.name = "a", .tokens_per_second = 1, .burst_tokens = 1};
  limiter.Admit(tenant, kStart).ticket->Charge(1000);
  ASSERT_EQ(limiter.Admit(tenant, kStart).ticket, nullptr);
  tenant.tokens_per_second = 0;
  EXPECT_NE(limiter.Admit(tenant, kStart).ticket, nullptr);
}

TEST(TenantLimiterTest, TicketsOutliveTheLimiter) {
  auto limiter = std::make_unique<TenantLimiter>();
  const TenantLimiter::Admission admission =
      limiter->Admit({.name = "a", .tokens_per_second = 1, .burst_tokens = 1}, kStart);
  limiter.reset();
  admission.ticket->Charge(1);
}

}  // namespace
}  // namespace lockstep::router
