#include "router/fleet/prefix_directory.h"

#include <algorithm>
#include <bit>

#include "common/check.h"
#include "router/core/kv/common_prefix.h"

namespace lockstep::router {
namespace {

constexpr uint32_t kBitsPerWord = 64;
constexpr size_t kMaxChangesAtOnce = 1024;  // bounded, so that readers come in between

}  // namespace

PrefixDirectory::PrefixDirectory(uint32_t max_replicas) : max_replicas_(max_replicas) {}

bool PrefixDirectory::TryTell(uint32_t replica, PrefixChanges& changes) {
  LOCKSTEP_CHECK(replica < max_replicas_, "replica {} of {}", replica, max_replicas_);
  if (changes.empty()) return true;
  if (!mutex_.try_lock()) return false;
  const std::vector<PrefixChanges::Change> taken = changes.Take(kMaxChangesAtOnce);
  // The table is larger than any cache. So all lines are prefetched before the first one is needed.
  for (const PrefixChanges::Change& change : taken) holders_.prefetch(change.prefix);
  for (const PrefixChanges::Change& change : taken) Tell(replica, change.prefix, change.learned);
  mutex_.unlock();
  return changes.empty();
}

bool PrefixDirectory::Contains(const ReplicaSet& replicas, size_t replica) {
  const size_t word = replica / kBitsPerWord;
  return word < replicas.size() && (replicas[word] >> (replica % kBitsPerWord) & 1) != 0;
}

void PrefixDirectory::Tell(uint32_t replica, uint64_t prefix, bool learned) {
  const size_t word = replica / kBitsPerWord;
  const uint64_t bit = uint64_t{1} << (replica % kBitsPerWord);
  if (learned) {
    ReplicaSet& holders = holders_[prefix];
    if (holders.size() <= word) holders.resize(word + 1, 0);
    holders[word] |= bit;
    return;
  }
  const auto found = holders_.find(prefix);
  if (found == holders_.end() || found->second.size() <= word) return;
  found->second[word] &= ~bit;
  if (std::ranges::count(found->second, 0u) == std::ssize(found->second)) holders_.erase(found);
}

void PrefixDirectory::Match(const PrefixRoot& root, std::span<const KvGroup> groups,
                            std::span<const TokenId> tokens,
                            std::span<uint32_t> num_cached_tokens) const {
  const uint32_t block_size_tokens = groups.front().block_size_tokens;
  LOCKSTEP_CHECK(num_cached_tokens.size() <= max_replicas_ && block_size_tokens > 0,
                 "{} lengths for {} replicas, blocks of {}", num_cached_tokens.size(),
                 max_replicas_, block_size_tokens);
  std::ranges::fill(num_cached_tokens, 0);
  // Hashes before it takes the lock, so that no loop waits for the hashing.
  std::vector<uint64_t> prefixes;
  prefixes.reserve(tokens.size() / block_size_tokens);
  uint64_t prefix = PrefixRootHash(root, block_size_tokens);
  for (size_t end = block_size_tokens; end <= tokens.size(); end += block_size_tokens) {
    prefix = ExtendPrefixHash(prefix, tokens.subspan(end - block_size_tokens, block_size_tokens));
    prefixes.push_back(prefix);
  }

  // Replicas that held all prefixes so far. When a replica leaves this set, its length is known.
  const size_t num_words = (num_cached_tokens.size() + kBitsPerWord - 1) / kBitsPerWord;
  const ReplicaSet none;
  ReplicaSet holding(num_words, ~uint64_t{0});
  const auto keep = [&](const ReplicaSet& holders, size_t num_blocks) {
    uint64_t any = 0;
    for (size_t word = 0; word < num_words; ++word) {
      const uint64_t held = word < holders.size() ? holders[word] : 0;
      for (uint64_t left = holding[word] & ~held; left != 0; left &= left - 1) {
        const size_t replica = word * kBitsPerWord + std::countr_zero(left);
        if (replica >= num_cached_tokens.size()) break;
        num_cached_tokens[replica] = static_cast<uint32_t>(num_blocks);
      }
      any |= holding[word] &= held;
    }
    return any != 0;
  };
  MutexLock lock(mutex_);
  bool any = true;
  for (size_t i = 0; any && i < prefixes.size(); ++i) {
    const auto found = holders_.find(prefixes[i]);
    any = keep(found == holders_.end() ? none : found->second, i);
  }
  if (any) keep(none, prefixes.size());
  if (groups.size() > 1) Shorten(groups, prefixes, num_cached_tokens);
  for (uint32_t& length : num_cached_tokens) length *= block_size_tokens;
}

void PrefixDirectory::Shorten(std::span<const KvGroup> groups, std::span<const uint64_t> prefixes,
                              std::span<uint32_t> num_blocks) const {
  std::vector<CommonPrefix> common(num_blocks.size(), CommonPrefix(groups));
  const uint32_t longest = *std::ranges::max_element(num_blocks);
  std::vector<const ReplicaSet*> holders(groups.size(), nullptr);  // null: no replica
  for (uint32_t i = 0; i < longest; ++i) {
    for (uint32_t group = 1; group < groups.size(); ++group) {
      const auto found = holders_.find(PrefixInGroup(prefixes[i], group));
      holders[group] = found == holders_.end() ? nullptr : &found->second;
    }
    for (size_t replica = 0; replica < num_blocks.size(); ++replica) {
      if (i >= num_blocks[replica]) continue;
      common[replica].Add([&](uint32_t group) {
        return holders[group] != nullptr && Contains(*holders[group], replica);
      });
    }
  }
  for (size_t replica = 0; replica < num_blocks.size(); ++replica) {
    num_blocks[replica] = common[replica].num_usable();
  }
}

size_t PrefixDirectory::num_prefixes() const {
  MutexLock lock(mutex_);
  return holders_.size();
}

}  // namespace lockstep::router
