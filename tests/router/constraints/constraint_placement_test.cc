// Where a constrained request may run, and what a worker is told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/fleet/seats.h"
#include "router/workers/slot_constraint.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {
namespace {

using Wire = worker::v1::SlotConstraint;

Request Constrained(ConstraintKind kind, uint64_t engine) {
  Request request;
  request.prompt_tokens = {1, 2};
  request.constraint = {.constraint = {.kind = kind, .text = "text"}, .engine = engine};
  return request;
}

TEST(ConstraintPlacementTest, OnlyWorkersWithTheSameEngineFit) {
  WorkerLimits limits;
  limits.kv_groups = {MakeKvGroup(16, 64, 0)};
  limits.max_context_tokens = 100;
  const Request request = Constrained(ConstraintKind::kRegex, 7);
  EXPECT_FALSE(FitsWorker(PlacementQuery::ForNew(request), limits));
  limits.constraint_engine = 8;
  EXPECT_FALSE(FitsWorker(PlacementQuery::ForNew(request), limits));
  limits.constraint_engine = 7;
  EXPECT_TRUE(FitsWorker(PlacementQuery::ForNew(request), limits));
  Request plain;
  plain.prompt_tokens = {1, 2};
  EXPECT_TRUE(FitsWorker(PlacementQuery::ForNew(plain), limits));
}

TEST(ConstraintPlacementTest, VersionsAreToldApart) {
  EXPECT_EQ(ConstraintEngineHash(""), 0u);
  EXPECT_NE(ConstraintEngineHash("a@1"), 0u);
  EXPECT_NE(ConstraintEngineHash("a@1"), ConstraintEngineHash("a@2"));
  worker::v1::DescribeResponse description;
  description.add_kv_groups()->set_block_size_tokens(16);
  description.mutable_kv_groups(0)->set_num_blocks(8);
  EXPECT_EQ(LimitsOf(description).constraint_engine, 0u);
  description.set_constraint_engine("a@1");
  EXPECT_EQ(LimitsOf(description).constraint_engine, ConstraintEngineHash("a@1"));
}

TEST(ConstraintPlacementTest, WorkersAreToldEveryKind) {
  const std::pair<ConstraintKind, Wire::Kind> kinds[] = {
      {ConstraintKind::kJsonSchema, Wire::JSON_SCHEMA},
      {ConstraintKind::kJsonObject, Wire::JSON_OBJECT},
      {ConstraintKind::kRegex, Wire::REGEX},
      {ConstraintKind::kChoice, Wire::CHOICE},
      {ConstraintKind::kGrammar, Wire::GRAMMAR}};
  for (const auto& [kind, expected] : kinds) {
    worker::v1::StartedSlot started;
    EncodeConstraint(Constrained(kind, 7), &started);
    EXPECT_EQ(started.constraint().kind(), expected);
    EXPECT_EQ(started.constraint().text(), "text");
  }
  worker::v1::StartedSlot plain;
  EncodeConstraint(Request(), &plain);
  EXPECT_FALSE(plain.has_constraint());
}

}  // namespace
}  // namespace lockstep::router
