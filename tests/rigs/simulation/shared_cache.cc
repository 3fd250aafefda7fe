#include "tests/rigs/simulation/shared_cache.h"

#include <string>

#include "router/core/kv/prefix_changes.h"
#include "router/core/kv/prefix_root.h"

namespace lockstep::bench {

SharedCache::SharedCache(uint64_t num_blocks, uint32_t block_size_tokens)
    : block_size_tokens_(block_size_tokens), max_entries_(num_blocks), entries_(1) {
  entry_of_.reserve(num_blocks);
}

void SharedCache::Unlink(uint32_t entry) {
  entries_[entries_[entry].newer].older = entries_[entry].older;
  entries_[entries_[entry].older].newer = entries_[entry].newer;
}

void SharedCache::PushNewest(uint32_t entry) {
  entries_[entry].newer = 0;
  entries_[entry].older = entries_[0].older;
  entries_[entries_[0].older].newer = entry;
  entries_[0].older = entry;
}

void SharedCache::Use(uint64_t prefix) {
  const auto [found, added] = entry_of_.try_emplace(prefix, 0);
  if (!added) {
    Unlink(found->second);
  } else if (entries_.size() <= max_entries_) {
    found->second = static_cast<uint32_t>(entries_.size());
    entries_.push_back({.prefix = prefix});
  } else {
    const uint32_t oldest = entries_[0].newer;
    found->second = oldest;
    Unlink(oldest);
    entry_of_.erase(entries_[oldest].prefix);
    entries_[oldest].prefix = prefix;
  }
  PushNewest(entry_of_.at(prefix));
}

uint32_t SharedCache::Serve(std::string_view salt, std::span<const TokenId> prompt,
                            std::span<const TokenId> output) {
  std::vector<TokenId> text(prompt.begin(), prompt.end());
  text.insert(text.end(), output.begin(), output.end());
  // The KV of a last token is never computed.
  const size_t num_blocks = (text.size() - 1) / block_size_tokens_;
  const size_t num_prompt_blocks = (prompt.size() - 1) / block_size_tokens_;
  std::vector<uint64_t> prefixes;
  uint64_t prefix = router::PrefixRootHash({.salt = std::string(salt)}, block_size_tokens_);
  size_t num_hit_blocks = 0;
  for (size_t i = 0; i < num_blocks; ++i) {
    const auto block =
        std::span<const TokenId>(text).subspan(i * block_size_tokens_, block_size_tokens_);
    prefix = router::ExtendPrefixHash(prefix, block);
    prefixes.push_back(prefix);
    if (i == num_hit_blocks && i < num_prompt_blocks && entry_of_.contains(prefix)) {
      ++num_hit_blocks;
    }
  }
  // The root is the newest: a block without those before it is worth nothing.
  for (auto it = prefixes.rbegin(); it != prefixes.rend(); ++it) Use(*it);
  return static_cast<uint32_t>(num_hit_blocks * block_size_tokens_);
}

}  // namespace lockstep::bench
