#include "router/fleet/fleet.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

TEST(FleetTest, OnlyAReplicaThatHadAWorkerHasLostOne) {
  Fleet fleet({}, 3);
  Request request;
  request.prompt_tokens = {1, 2, 3};
  const Fleet::Lease lease = {
      .bits = {}, .limits = {.kv_groups = {{.num_blocks = 8}}, .max_context_tokens = 64}};
  fleet.SetLease(0, lease);
  fleet.SetLease(1, lease);
  fleet.SetReadiness(0, Readiness::kReady);
  fleet.SetReadiness(1, Readiness::kReady);
  fleet.SetReadiness(1, Readiness::kStandby);
  fleet.SetReadiness(0, Readiness::kAway);
  // The worker of another router cannot be reached.
  fleet.SetReadiness(1, Readiness::kAway);
  EXPECT_EQ(fleet.FindOtherOrRoom(2, PlacementQuery::ForNew(request)), 0u);
}

}  // namespace
}  // namespace lockstep::router
