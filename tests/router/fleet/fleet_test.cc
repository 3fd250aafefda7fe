#include "router/fleet/fleet.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

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

// Both replicas hold the prompt in the first group. One lost the blocks before its end in the group
// with a window, so it would have to compute everything.
TEST(FleetTest, APrefixCountsWhereEveryGroupHasIt) {
  Request request;
  request.prompt_tokens = std::vector<TokenId>(400, 7);
  const Fleet::Lease lease = {
      .bits = {},
      .limits = {
          .kv_groups = {{.num_blocks = 64},
                        {.num_blocks = 64, .retention = Retention::kWindow, .window_tokens = 32}},
          .max_context_tokens = 1024}};
  for (const uint32_t better : {0u, 1u}) {
    Fleet fleet({}, 3);
    for (const uint32_t replica : {0u, 1u}) {
      fleet.SetLease(replica, lease);
      fleet.SetLoad(replica, {.available_blocks = 64, .free_blocks = 64});
      PrefixChanges changes;
      uint64_t prefix = PrefixRootHash({}, 16);
      for (size_t block = 0; block < 24; ++block) {
        prefix = ExtendPrefixHash(prefix, std::span(request.prompt_tokens).subspan(block * 16, 16));
        changes.Learn(prefix);
        if (block != 22 || replica == better) changes.Learn(PrefixInGroup(prefix, 1));
      }
      ASSERT_TRUE(fleet.TellPrefixes(replica, changes));
      fleet.SetReadiness(replica, Readiness::kReady);
    }
    EXPECT_EQ(fleet.FindOther(2, PlacementQuery::ForNew(request)), better);
  }
}

}  // namespace
}  // namespace lockstep::router
