#include "worker/service/lease_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/lease_epoch.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kIncarnation = 42;

v1::StepRequest ClaimOf(uint64_t epoch, bool takeover = false, uint64_t expected_incarnation = 0) {
  v1::StepRequest message;
  message.set_epoch(epoch);
  message.mutable_claim()->set_takeover(takeover);
  message.mutable_claim()->set_expected_incarnation(expected_incarnation);
  return message;
}

std::string ErrorOf(LeaseLedger& ledger, const v1::StepRequest& message, absl::StatusCode code) {
  const absl::Status status = ledger.Claim(message);
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(LeaseLedgerTest, EpochsOnlyRise) {
  LeaseLedger ledger(kIncarnation);
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(0), absl::StatusCode::kFailedPrecondition),
              HasSubstr("above 0"));
  EXPECT_TRUE(ledger.Claim(ClaimOf(5)).ok());
  EXPECT_EQ(ledger.live_epoch(), 5u);
  ledger.End(5);
  EXPECT_EQ(ledger.live_epoch(), 0u);
  EXPECT_EQ(ledger.last_epoch(), 5u);
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(5), absl::StatusCode::kFailedPrecondition),
              HasSubstr("above 5, got 5"));
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(4, true), absl::StatusCode::kFailedPrecondition),
              HasSubstr("got 4"));
  EXPECT_TRUE(ledger.Claim(ClaimOf(6)).ok());
}

TEST(LeaseLedgerTest, NoClaimUsesTheEpochsUp) {
  LeaseLedger ledger(kIncarnation);
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(~uint64_t{0}), absl::StatusCode::kFailedPrecondition),
              HasSubstr("must be at most 4611686018427387904, got 18446744073709551615"));
  EXPECT_EQ(ledger.last_epoch(), 0u);
  ASSERT_TRUE(ledger.Claim(ClaimOf(kFreeEpochs)).ok());
  // From there they rise one by one, and a takeover is as good as ever.
  EXPECT_THAT(
      ErrorOf(ledger, ClaimOf(kFreeEpochs + 2, true), absl::StatusCode::kFailedPrecondition),
      HasSubstr("must be at most 4611686018427387905"));
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(ledger.Claim(ClaimOf(kFreeEpochs + i, true)).ok());
    EXPECT_EQ(ledger.live_epoch(), kFreeEpochs + i);
  }
  ErrorOf(ledger, ClaimOf(kFreeEpochs + 3, true), absl::StatusCode::kFailedPrecondition);
}

TEST(LeaseEpochTest, NothingOverflows) {
  EXPECT_EQ(HighestClaimableEpoch(0), kFreeEpochs);
  EXPECT_EQ(HighestClaimableEpoch(kFreeEpochs - 1), kFreeEpochs);
  EXPECT_EQ(HighestClaimableEpoch(kFreeEpochs), kFreeEpochs + 1);
  EXPECT_EQ(HighestClaimableEpoch(kHighestEpoch - 1), kHighestEpoch);
  EXPECT_EQ(HighestClaimableEpoch(kHighestEpoch), kHighestEpoch);
  EXPECT_EQ(HighestClaimableEpoch(~uint64_t{0}), kHighestEpoch);
}

TEST(LeaseLedgerTest, ALivingLeaseNeedsATakeover) {
  LeaseLedger ledger(kIncarnation);
  ASSERT_TRUE(ledger.Claim(ClaimOf(1)).ok());
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(2), absl::StatusCode::kFailedPrecondition),
              HasSubstr("takeover"));
  // A claim that was turned down uses no epoch up.
  EXPECT_EQ(ledger.last_epoch(), 1u);
  EXPECT_TRUE(ledger.Claim(ClaimOf(2, true)).ok());
  EXPECT_EQ(ledger.live_epoch(), 2u);
  // The fenced stream ends later.
  ledger.End(1);
  EXPECT_EQ(ledger.live_epoch(), 2u);
}

v1::StepRequest StandInClaimOf(uint64_t epoch) {
  v1::StepRequest message = ClaimOf(epoch);
  message.mutable_claim()->set_stand_in(true);
  return message;
}

TEST(LeaseLedgerTest, TheOwnerAsksAStandInForTheLease) {
  LeaseLedger ledger(kIncarnation);
  ASSERT_TRUE(ledger.Claim(StandInClaimOf(1)).ok());
  EXPECT_FALSE(ledger.asked_back());
  // Another stand-in asks for nothing.
  ErrorOf(ledger, StandInClaimOf(2), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ledger.asked_back());
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(2), absl::StatusCode::kFailedPrecondition),
              HasSubstr("gives the worker back (epoch 1"));
  EXPECT_TRUE(ledger.asked_back());
  EXPECT_EQ(ledger.live_epoch(), 1u);  // it lives until its router has finished
  ledger.End(1);
  EXPECT_FALSE(ledger.asked_back());
  // Nobody asks an owner.
  ASSERT_TRUE(ledger.Claim(ClaimOf(2)).ok());
  ErrorOf(ledger, ClaimOf(3), absl::StatusCode::kFailedPrecondition);
  ErrorOf(ledger, StandInClaimOf(3), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ledger.asked_back());
}

TEST(LeaseLedgerTest, AStandInNeverTakesOverFromTheOwner) {
  LeaseLedger ledger(kIncarnation);
  ASSERT_TRUE(ledger.Claim(ClaimOf(1)).ok());
  v1::StepRequest stand_in = StandInClaimOf(2);
  stand_in.mutable_claim()->set_takeover(true);
  EXPECT_THAT(ErrorOf(ledger, stand_in, absl::StatusCode::kFailedPrecondition),
              HasSubstr("claim.stand_in: another router serves this worker as its own (epoch 1"));
  EXPECT_EQ(ledger.live_epoch(), 1u);
  EXPECT_FALSE(ledger.asked_back());
  ledger.End(1);
  EXPECT_TRUE(ledger.Claim(stand_in).ok());
}

TEST(LeaseLedgerTest, ANewLeaseIsNotAskedBack) {
  LeaseLedger ledger(kIncarnation);
  ASSERT_TRUE(ledger.Claim(StandInClaimOf(1)).ok());
  ErrorOf(ledger, ClaimOf(2), absl::StatusCode::kFailedPrecondition);
  v1::StepRequest again = StandInClaimOf(3);
  again.mutable_claim()->set_takeover(true);
  ASSERT_TRUE(ledger.Claim(again).ok());
  EXPECT_FALSE(ledger.asked_back());
}

TEST(LeaseLedgerTest, IncarnationMustMatchWhenGiven) {
  LeaseLedger ledger(kIncarnation);
  EXPECT_THAT(ErrorOf(ledger, ClaimOf(1, false, 41), absl::StatusCode::kFailedPrecondition),
              HasSubstr("42"));
  EXPECT_TRUE(ledger.Claim(ClaimOf(1, false, kIncarnation)).ok());
}

TEST(LeaseLedgerTest, AClaimStandsAlone) {
  LeaseLedger ledger(kIncarnation);
  v1::StepRequest no_claim;
  no_claim.set_epoch(1);
  EXPECT_THAT(ErrorOf(ledger, no_claim, absl::StatusCode::kInvalidArgument),
              HasSubstr("must be a claim"));
  v1::StepRequest with_step = ClaimOf(1);
  with_step.set_step_id(1);
  EXPECT_THAT(ErrorOf(ledger, with_step, absl::StatusCode::kInvalidArgument), HasSubstr("alone"));
  v1::StepRequest with_rows = ClaimOf(1);
  with_rows.add_run_slots(0);
  ErrorOf(ledger, with_rows, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ledger.last_epoch(), 0u);
}

}  // namespace
}  // namespace lockstep::worker
