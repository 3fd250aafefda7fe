#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/prefix_changes.h"
#include "router/core/kv/prefix_root.h"

namespace lockstep::router {

// A reference to a node of the index at one moment. Serials are never reused. So if the node was
// evicted and its block holds another node now, the serials differ.
struct PrefixNode {
  BlockId block = 0;
  uint64_t serial = 0;  // 0: the root
};

struct PrefixMatch {
  std::vector<BlockId> blocks;  // the longest chain of full blocks, from the start of the text
  PrefixNode last;
};

// Maps full blocks of tokens to KV blocks. It is a tree: a node is one full block and lies below
// its parent *node*, which stands for the tokens before it. The top nodes lie below a PrefixRoot. A
// lookup uses a hash of (parent, tokens). It then compares the parent and every token, so a
// collision costs only time.
//
// A node is busy while its block is referenced or one of its children is busy. Otherwise it is
// idle. Idle nodes form the eviction list; the node that became idle first is evicted first. A
// child becomes idle before its parent does, so the head of the list is always a leaf. Knows no
// sequences. Has at most as many nodes as the worker has blocks.
class PrefixIndex {
 public:
  using HashFunction = uint64_t (*)(uint64_t parent_serial, std::span<const TokenId> tokens);

  // `changes` receives what the index learns and forgets, and must outlive the index. Null: not
  // reported. The destructor forgets everything.
  PrefixIndex(uint32_t num_blocks, uint32_t block_size_tokens, PrefixChanges* changes = nullptr);
  // Takes another hash function. Tests use it to provoke collisions.
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

  PrefixNode NodeOf(BlockId block) const { return {block, nodes_[block].serial}; }

  // The hash of the prefix that ends with the node's block, as in `changes`.
  uint64_t PrefixOf(BlockId node) const { return nodes_[node].prefix; }

  PrefixMatch Match(const PrefixRoot& root, std::span<const TokenId> tokens,
                    uint32_t max_blocks) const;

  // Makes `block` the node of `tokens` (one full block) below `parent`, and returns it. `block`
  // must be referenced and must not be in the index. If the node exists already, returns the
  // existing node and does not add `block`. Returns nothing if the parent was evicted.
  std::optional<PrefixNode> Insert(const PrefixRoot& prefix_root, const PrefixNode& parent,
                                   std::span<const TokenId> tokens, BlockId block);

  // Call when the block of a node got its first reference, or lost its last one.
  void MarkReferenced(BlockId block) { AddUser(block); }
  void MarkUnreferenced(BlockId block) { RemoveUser(block); }

  // Forgets the node that has been idle longest and returns its block. At least one must be idle.
  BlockId EvictOldest();

  // `references`: the references to each block, as the pool counts them.
  absl::Status CheckIntegrity(const std::vector<uint32_t>& references) const;

 private:
  static constexpr BlockId kNone = std::numeric_limits<BlockId>::max();

  struct Root {
    uint64_t serial = 0;
    uint64_t prefix = 0;  // PrefixRootHash
    uint32_t num_children = 0;
  };
  using Roots = std::map<PrefixRoot, Root>;

  struct Node {
    uint64_t serial = 0;  // 0: the block is not in the index
    uint64_t parent_serial = 0;
    uint64_t hash = 0;
    uint64_t prefix = 0;     // hash of all tokens up to this block's end, reported in `changes_`
    BlockId parent = kNone;  // kNone: the parent is `root`
    Roots::iterator root;    // valid when parent == kNone
    uint32_t num_children = 0;
    uint32_t num_users = 0;  // busy children, plus one if the block is referenced
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
  // Returns kNone if there is no such node.
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
  std::vector<TokenId> tokens_;  // by block, block_size_tokens_ for each
  absl::flat_hash_set<BlockId, KeyHash, KeyEqual> table_;
  Roots roots_;
  uint64_t next_serial_ = 1;
  uint32_t num_nodes_ = 0;
  uint32_t num_idle_ = 0;
  BlockId idle_head_ = kNone;
  BlockId idle_tail_ = kNone;
};

}  // namespace lockstep::router
