#include "router/core/kv/prefix_root.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "common/hash.h"

namespace lockstep::router {
namespace {

TEST(PrefixRootTest, EveryPartMakesAnotherRootAndAnotherHash) {
  const std::vector<PrefixRoot> roots = {
      {},
      {.salt = "a"},
      {.salt = "b"},
      {.adapter = "a"},
      {.adapter = "a", .revision = 1},
      {.adapter = "a", .revision = 2},
      {.salt = "a", .adapter = "a", .revision = 1},
      {.salt = "b", .adapter = "a", .revision = 1},
  };
  const std::set<PrefixRoot> distinct(roots.begin(), roots.end());
  EXPECT_EQ(distinct.size(), roots.size());
  std::set<uint64_t> hashes;
  for (const PrefixRoot& root : roots) {
    hashes.insert(PrefixRootHash(root, 16));
    hashes.insert(PrefixRootHash(root, 32));
  }
  EXPECT_EQ(hashes.size(), 2 * roots.size());
}

// What fleets of today say of their prefixes stays true.
TEST(PrefixRootTest, WithoutAnAdapterTheHashIsThatOfTheSalt) {
  EXPECT_EQ(PrefixRootHash({}, 16), Hash64("", 16));
  EXPECT_EQ(PrefixRootHash({.salt = "tenant"}, 16), Hash64("tenant", 16));
}

}  // namespace
}  // namespace lockstep::router
