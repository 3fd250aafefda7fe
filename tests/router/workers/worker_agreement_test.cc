#include "router/workers/worker_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr WorkerBits kBits = {.numerics_id = 1, .weights_fingerprint = 2};
constexpr WorkerBits kOtherWeights = {.numerics_id = 7, .weights_fingerprint = 9};
constexpr WorkerBits kOtherNumerics = {.numerics_id = 7, .weights_fingerprint = 2};

TEST(WorkerAgreementTest, TheFirstReadyWorkerIsTheReferenceUntilNoneIsReady) {
  WorkerAgreement agreement({});
  EXPECT_TRUE(agreement.Check(kOtherWeights).ok()) << "a check makes nobody the reference";
  auto first = agreement.Join(kBits);
  ASSERT_TRUE(first.ok());
  auto second = agreement.Join(kBits);
  ASSERT_TRUE(second.ok());
  const absl::Status status = agreement.Check(kOtherWeights);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("weights_fingerprint: expected 0000000000000002 (of the workers that "
                              "are ready), got 0000000000000009"),
                    HasSubstr("numerics_id: expected 0000000000000001 (of the workers that are "
                              "ready), got 0000000000000007")));
  EXPECT_THAT(Message(agreement.Check(kOtherNumerics)),
              AllOf(HasSubstr("numerics_id"), Not(HasSubstr("weights_fingerprint"))));
  EXPECT_EQ(agreement.Join(kOtherNumerics).status(), agreement.Check(kOtherNumerics));
  first->reset();
  EXPECT_FALSE(agreement.Check(kOtherWeights).ok()) << "the second one is ready";
  second->reset();
  const auto other = agreement.Join(kOtherWeights);
  EXPECT_TRUE(other.ok());
  EXPECT_FALSE(agreement.Check(kBits).ok());
}

TEST(WorkerAgreementTest, NamedWeightsAreAskedOfTheFirstOneAsWell) {
  WorkerAgreement agreement({.weights_fingerprint = 2});
  EXPECT_THAT(Message(agreement.Join(kOtherWeights).status()),
              HasSubstr("weights_fingerprint: expected 0000000000000002 (of "
                        "--weights-fingerprint), got 0000000000000009"));
  const auto first = agreement.Join(kOtherNumerics);
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(agreement.Check(kBits).ok()) << "its numerics are the reference";
}

TEST(WorkerAgreementTest, MixedWorkersMayDifferButNotFromNamedWeights) {
  WorkerAgreement any({.allow_mixed = true});
  const auto first = any.Join(kBits);
  EXPECT_TRUE(any.Join(kOtherWeights).ok());
  EXPECT_TRUE(any.Join(kOtherNumerics).ok());
  WorkerAgreement named({.weights_fingerprint = 2, .allow_mixed = true});
  const auto of_named = named.Join(kBits);
  EXPECT_TRUE(named.Check(kOtherNumerics).ok());
  EXPECT_FALSE(named.Check(kOtherWeights).ok());
}

}  // namespace
}  // namespace lockstep::router
