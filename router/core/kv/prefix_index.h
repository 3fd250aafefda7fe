#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/prefix_changes.h"

namespace lockstep::router {

// A node of the index as it was when the reference was made. Serials are never reused, so a
// reference to an evicted node can be told from one to whatever lives in that block now.
struct PrefixNode {
  BlockId block = 0;
  uint64_t serial = 0;  // 0: the root
};

struct PrefixMatch {
  std::vector<BlockId> blocks;  // the longest chain of full blocks, from the start of the text
  PrefixNode last;
};

// Which full block of tokens lies in which KV block, after which prefix. A tree: a node is one full
// block under its parent *node*; a root stands for a salt. Found by a hash of (parent, tokens), and
// the parent and every token are compared on each hit, so that a collision costs time and nothing
// else.
//
// A node is busy while its block is referenced or a child is busy, idle otherwise. Idle nodes form
// the eviction list, least recently idle first; a child becomes idle before its parent does, so the
// head of the list is always a leaf. Knows no sequences; its nodes are bounded by the worker's
// blocks.
class PrefixIndex {
 public:
  using HashFunction = uint64_t (*)(uint64_t parent_serial, std::span<const TokenId> tokens);

  // What the index learns and forgets goes to `changes`, which must outlive it; null: nobody wants
  // to know. An index that dies forgets everything.
  PrefixIndex(uint32_t num_blocks, uint32_t block_size_tokens, PrefixChanges* changes = nullptr);
  // Tests provoke collisions with a hash of their own.
  PrefixIndex(uint32_t num_blocks, uint32_t block_size_tokens, HashFunction hash,
              PrefixChanges* changes = nullptr);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  uint32_t num_nodes() const { return num_nodes_; }
  uint32_t num_idle() const { return num_idle_; }
  uint32_t num_roots() const { return static_cast<uint32_t>(roots_.size()); }
  bool Contains(BlockId block) const { return nodes_[block].serial != 0; }
  bool IsIdle(BlockId block) const { return Contains(block) && nodes_[block].num_users == 0; }

  PrefixMatch Match(std::string_view salt, std::span<const TokenId> tokens,
                    uint32_t max_blocks) const;

  // Makes `block`, which must be referenced and not in the index, the node of `tokens` (one full
  // block) under `parent`, unless that node exists: then that one is returned and `block` stays
  // unknown. Nothing when the parent has been evicted.
  std::optional<PrefixNode> Insert(std::string_view salt, const PrefixNode& parent,
                                   std::span<const TokenId> tokens, BlockId block);

  // The block of a node got its first, or lost its last, reference.
  void MarkReferenced(BlockId block) { AddUser(block); }
  void MarkUnreferenced(BlockId block) { RemoveUser(block); }

  // Forgets the node that has been idle longest and returns its block. One must be idle.
  BlockId EvictOldest();

  // `references`: per block, as the pool counts them.
  absl::Status CheckIntegrity(const std::vector<uint32_t>& references) const;

 private:
  static constexpr BlockId kNone = std::numeric_limits<BlockId>::max();

  struct Root {
    uint64_t serial = 0;
    uint64_t prefix = 0;  // PrefixRootHash
    uint32_t num_children = 0;
  };
  using Roots = std::map<std::string, Root, std::less<>>;

  struct Node {
    uint64_t serial = 0;  // 0: the block is not in the index
    uint64_t parent_serial = 0;
    uint64_t hash = 0;
    uint64_t prefix = 0;     // hash of all tokens up to here, told in `changes_`
    BlockId parent = kNone;  // kNone: `root`
    Roots::iterator root;    // valid when parent == kNone
    uint32_t num_children = 0;
    uint32_t num_users = 0;  // busy children, and one if the block is referenced
    BlockId idle_previous = kNone;
    BlockId idle_next = kNone;
  };

  struct Key {
    uint64_t hash;
    uint64_t parent_serial;
    std::span<const TokenId> tokens;
  };
  struct KeyHash {
    using is_transparent = void;
    const PrefixIndex* index;
    size_t operator()(BlockId block) const { return index->nodes_[block].hash; }
    size_t operator()(const Key& key) const { return key.hash; }
  };
  struct KeyEqual {
    using is_transparent = void;
    const PrefixIndex* index;
    bool operator()(BlockId a, BlockId b) const { return a == b; }
    bool operator()(BlockId a, const Key& key) const { return index->Equals(a, key); }
    bool operator()(const Key& key, BlockId a) const { return index->Equals(a, key); }
  };

  std::span<const TokenId> TokensOf(BlockId block) const;
  bool Equals(BlockId block, const Key& key) const;
  Key MakeKey(uint64_t parent_serial, std::span<const TokenId> tokens) const {
    return {hash_(parent_serial, tokens), parent_serial, tokens};
  }
  // kNone when there is none.
  BlockId Find(const Key& key) const;
  void AddUser(BlockId block);
  void RemoveUser(BlockId block);
  void AppendIdle(BlockId block);
  void UnlinkIdle(BlockId block);
  absl::Status CheckIdleList() const;

  const uint32_t block_size_tokens_;
  const HashFunction hash_;
  PrefixChanges* const changes_;
  std::vector<Node> nodes_;      // by block
  std::vector<TokenId> tokens_;  // by block, block_size_tokens_ each
  absl::flat_hash_set<BlockId, KeyHash, KeyEqual> table_;
  Roots roots_;
  uint64_t next_serial_ = 1;
  uint32_t num_nodes_ = 0;
  uint32_t num_idle_ = 0;
  BlockId idle_head_ = kNone;
  BlockId idle_tail_ = kNone;
};

}  // namespace lockstep::router
