#include "router/workers/shard.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "common/hash.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

// Every router keeps a connection to every worker, and a worker accepts 256
// (worker/service/worker_server.h). Half of them are left for routers that are being replaced.
constexpr uint32_t kMaxShards = 128;

std::optional<uint32_t> ParseCount(std::string_view text) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Equal weights are ordered by index.
std::pair<uint64_t, uint32_t> WeightOf(uint64_t worker, uint32_t index) {
  return {CombineHashes(worker, index), index};
}

}  // namespace

absl::StatusOr<Shard> ParseShard(std::string_view text) {
  if (text.empty()) return Shard();
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::optional<uint32_t> index = ParseCount(text.substr(0, slash));
    const std::optional<uint32_t> count = ParseCount(text.substr(slash + 1));
    if (index.has_value() && count.has_value() && *index < *count && *count <= kMaxShards) {
      return Shard{.index = *index, .count = *count};
    }
  }
  return InvalidArgument("\"{}\", expected I/N with 0 <= I < N <= {}", text, kMaxShards);
}

uint32_t ShardRank(const Shard& shard, std::string_view worker) {
  const uint64_t hash = Hash64(worker);
  const auto mine = WeightOf(hash, shard.index);
  uint32_t rank = 0;
  for (uint32_t i = 0; i < shard.count; ++i) rank += WeightOf(hash, i) > mine;
  return rank;
}

std::vector<uint32_t> EvenShardRanks(const Shard& shard, std::span<const std::string> workers) {
  struct Pair {
    std::pair<uint64_t, uint32_t> weight;  // and the router
    uint32_t worker;
  };
  std::vector<uint64_t> hashes;
  std::vector<Pair> pairs;
  for (const std::string& worker : workers) {
    hashes.push_back(Hash64(worker));
    for (uint32_t router = 0; router < shard.count; ++router) {
      pairs.push_back({WeightOf(hashes.back(), router), static_cast<uint32_t>(hashes.size() - 1)});
    }
  }
  std::ranges::sort(pairs, [&workers](const Pair& a, const Pair& b) {
    return a.weight != b.weight ? a.weight > b.weight : workers[a.worker] < workers[b.worker];
  });
  const size_t share = workers.size() / shard.count;
  size_t num_larger_shares = workers.size() % shard.count;  // by one
  std::vector<size_t> num_owned(shard.count);
  std::vector<std::optional<uint32_t>> owners(workers.size());
  for (const auto& [weight, worker] : pairs) {
    const uint32_t router = weight.second;
    if (owners[worker].has_value() || num_owned[router] > share) continue;
    if (num_owned[router] == share) {
      if (num_larger_shares == 0) continue;
      --num_larger_shares;
    }
    ++num_owned[router];
    owners[worker] = router;
  }
  std::vector<uint32_t> ranks;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    if (owners[worker] == shard.index) {
      ranks.push_back(0);
      continue;
    }
    // After the owner come the others in the order of one worker alone.
    const auto mine = WeightOf(hashes[worker], shard.index);
    uint32_t rank = 1;
    for (uint32_t router = 0; router < shard.count; ++router) {
      rank += owners[worker] != router && WeightOf(hashes[worker], router) > mine;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace lockstep::router
