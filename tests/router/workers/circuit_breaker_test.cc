#include "router/workers/circuit_breaker.h"

#include <gtest/gtest.h>

#include "common/instant.h"
#include "router/fleet/retry_budget.h"

namespace lockstep::router {
namespace {

using Loss = CircuitBreaker::Loss;

const Instant kBreakerStart = Instant::After(absl::Seconds(1000));

TEST(CircuitBreakerTest, TwoFailuresInARowBreakIt) {
  CircuitBreaker breaker;
  breaker.OnAttach();
  breaker.OnLoss(Loss::kFailure);
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart);
  breaker.OnLoss(Loss::kFailure);
  EXPECT_EQ(breaker.state(), CircuitState::kOpen);
  breaker.OnAttach();
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
}

TEST(CircuitBreakerTest, OneHangBreaksItAndResultsOverTimeMendIt) {
  CircuitBreaker breaker;
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart);
  breaker.OnResult(kBreakerStart + CircuitBreaker::kProof);
  breaker.OnLoss(Loss::kHang);
  EXPECT_EQ(breaker.state(), CircuitState::kOpen);
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart + absl::Seconds(70));
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
  breaker.OnResult(kBreakerStart + absl::Seconds(70) + CircuitBreaker::kProof -
                   absl::Nanoseconds(1));
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
  breaker.OnResult(kBreakerStart + absl::Seconds(70) + CircuitBreaker::kProof);
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
}

TEST(CircuitBreakerTest, ForgottenFailuresCloseIt) {
  CircuitBreaker breaker;
  breaker.OnAttach();
  breaker.OnLoss(Loss::kHang);
  breaker.ForgetFailures();
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
  breaker.OnAttach();
  breaker.OnLoss(Loss::kFailure);
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
}

TEST(CircuitBreakerTest, ResultsOfEarlierLeasesProveNothing) {
  CircuitBreaker breaker;
  breaker.OnLoss(Loss::kHang);
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart);
  breaker.OnLoss(Loss::kIdle);
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart + absl::Seconds(50));
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
}

TEST(CircuitBreakerTest, LossesOfIdleWorkersDoNotCount) {
  CircuitBreaker breaker;
  for (int i = 0; i < 5; ++i) {
    breaker.OnAttach();
    breaker.OnLoss(Loss::kIdle);
  }
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
}

TEST(CircuitBreakerTest, AWorkerThatHasNotServedIsGivenUpAfterFewFaults) {
  CircuitBreaker breaker;
  breaker.OnAttach();
  EXPECT_FALSE(breaker.OnFaults(1));
  EXPECT_TRUE(breaker.OnFaults(1));
  breaker.OnLoss(Loss::kFaults);
  EXPECT_EQ(breaker.state(), CircuitState::kOpen);
  breaker.OnAttach();
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
  EXPECT_TRUE(breaker.OnFaults(1)) << "on trial one is enough";
}

TEST(CircuitBreakerTest, OneThatHasServedIsGivenUpAfterMoreFaultsInARow) {
  CircuitBreaker breaker;
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart);
  EXPECT_FALSE(breaker.OnFaults(CircuitBreaker::kMaxFaults - 1));
  breaker.OnResult(kBreakerStart);
  EXPECT_FALSE(breaker.OnFaults(CircuitBreaker::kMaxFaults - 1));
  EXPECT_TRUE(breaker.OnFaults(1));
  breaker.OnLoss(Loss::kFaults);
  breaker.OnAttach();
  breaker.OnResult(kBreakerStart + absl::Seconds(5));
  EXPECT_EQ(breaker.state(), CircuitState::kHalfOpen);
  breaker.OnResult(kBreakerStart + absl::Seconds(5) + CircuitBreaker::kProof);
  EXPECT_EQ(breaker.state(), CircuitState::kClosed);
}

TEST(RetryBudgetTest, ABurstIsThereAtOnceAndComesBackWithTime) {
  RetryBudget budget;
  const auto take_all = [&budget](Instant now, uint32_t num_replicas) {
    uint32_t count = 0;
    while (budget.Take(now, num_replicas)) ++count;
    return count;
  };
  EXPECT_EQ(take_all(kBreakerStart, 3), RetryBudget::kMinBurst);
  EXPECT_EQ(take_all(kBreakerStart, 3), 0u);
  EXPECT_EQ(take_all(kBreakerStart + RetryBudget::kRefill / 4, 3), RetryBudget::kMinBurst / 4);
  EXPECT_EQ(take_all(kBreakerStart + 9 * RetryBudget::kRefill, 3), RetryBudget::kMinBurst);
  EXPECT_EQ(take_all(kBreakerStart + 19 * RetryBudget::kRefill, 100), 6400u);
  EXPECT_EQ(take_all(kBreakerStart, 100), 0u) << "time does not go back";
}

}  // namespace
}  // namespace lockstep::router
