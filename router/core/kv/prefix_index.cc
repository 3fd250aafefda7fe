#include "router/core/kv/prefix_index.h"

#include <algorithm>

#include "common/check.h"
#include "common/hash.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

uint64_t HashOf(uint64_t parent_serial, std::span<const TokenId> tokens) {
  return Hash64(std::as_bytes(tokens), parent_serial);
}

}  // namespace

PrefixIndex::PrefixIndex(uint32_t num_blocks, uint32_t block_size_tokens, PrefixChanges* changes)
    : PrefixIndex(num_blocks, block_size_tokens, &HashOf, changes) {}

PrefixIndex::PrefixIndex(uint32_t num_blocks, uint32_t block_size_tokens, HashFunction hash,
                         PrefixChanges* changes)
    : block_size_tokens_(block_size_tokens),
      hash_(hash),
      changes_(changes),
      nodes_(num_blocks),
      tokens_(size_t{num_blocks} * block_size_tokens),
      table_(0, KeyHash{this}, KeyEqual{this}) {
  table_.reserve(num_blocks);
}

PrefixIndex::~PrefixIndex() {
  if (changes_ == nullptr) return;
  for (const BlockId block : table_) changes_->Forget(nodes_[block].prefix);
}

std::span<const TokenId> PrefixIndex::TokensOf(BlockId block) const {
  return std::span(tokens_).subspan(size_t{block} * block_size_tokens_, block_size_tokens_);
}

bool PrefixIndex::Equals(BlockId block, const Key& key) const {
  const Node& node = nodes_[block];
  return node.hash == key.hash && node.parent_serial == key.parent_serial &&
         std::ranges::equal(TokensOf(block), key.tokens);
}

BlockId PrefixIndex::Find(const Key& key) const {
  const auto found = table_.find(key);
  return found == table_.end() ? kNone : *found;
}

PrefixMatch PrefixIndex::Match(const PrefixRoot& root, std::span<const TokenId> tokens,
                               uint32_t max_blocks) const {
  PrefixMatch match;
  const auto found = roots_.find(root);
  if (found == roots_.end()) return match;
  const size_t num_blocks = std::min<size_t>(max_blocks, tokens.size() / block_size_tokens_);
  uint64_t parent_serial = found->second.serial;
  for (size_t i = 0; i < num_blocks; ++i) {
    const BlockId block =
        Find(MakeKey(parent_serial, tokens.subspan(i * block_size_tokens_, block_size_tokens_)));
    if (block == kNone) break;
    parent_serial = nodes_[block].serial;
    match.blocks.push_back(block);
    match.last = {block, parent_serial};
  }
  return match;
}

std::optional<PrefixNode> PrefixIndex::Insert(const PrefixRoot& prefix_root,
                                              const PrefixNode& parent,
                                              std::span<const TokenId> tokens, BlockId block) {
  const bool under_root = parent.serial == 0;
  if (!under_root && nodes_[parent.block].serial != parent.serial) return std::nullopt;
  Roots::iterator root = roots_.end();
  if (under_root) {
    root = roots_.find(prefix_root);
    if (root == roots_.end()) {
      const Root made = {.serial = next_serial_++,
                         .prefix = PrefixRootHash(prefix_root, block_size_tokens_)};
      root = roots_.emplace(prefix_root, made).first;
    }
  }
  const Key key = MakeKey(under_root ? root->second.serial : parent.serial, tokens);
  uint32_t& num_siblings =
      under_root ? root->second.num_children : nodes_[parent.block].num_children;
  table_.prefetch(key);
  // A parent without children needs no lookup.
  if (num_siblings > 0) {
    const BlockId existing = Find(key);
    if (existing != kNone) return PrefixNode{existing, nodes_[existing].serial};
  }

  Node& node = nodes_[block];
  LOCKSTEP_CHECK(node.serial == 0, "block {} is in the index already", block);
  node = Node{.serial = next_serial_++,
              .parent_serial = key.parent_serial,
              .hash = key.hash,
              .prefix = ExtendPrefixHash(
                  under_root ? root->second.prefix : nodes_[parent.block].prefix, tokens),
              .parent = under_root ? kNone : parent.block,
              .root = root};
  std::ranges::copy(tokens, tokens_.begin() + ptrdiff_t{block} * block_size_tokens_);
  table_.insert(block);
  if (changes_ != nullptr) changes_->Learn(node.prefix);
  ++num_nodes_;
  ++num_siblings;
  AddUser(block);
  return PrefixNode{block, node.serial};
}

void PrefixIndex::AddUser(BlockId block) {
  while (block != kNone) {
    Node& node = nodes_[block];
    if (node.num_users++ > 0) return;
    UnlinkIdle(block);
    block = node.parent;
  }
}

void PrefixIndex::RemoveUser(BlockId block) {
  while (block != kNone) {
    Node& node = nodes_[block];
    LOCKSTEP_CHECK(node.num_users > 0, "the node of block {} is idle already", block);
    if (--node.num_users > 0) return;
    AppendIdle(block);
    block = node.parent;
  }
}

void PrefixIndex::AppendIdle(BlockId block) {
  Node& node = nodes_[block];
  node.idle_previous = idle_tail_;
  node.idle_next = kNone;
  (idle_tail_ == kNone ? idle_head_ : nodes_[idle_tail_].idle_next) = block;
  idle_tail_ = block;
  ++num_idle_;
}

// A node that was just inserted is not in the list yet: it is not the head and has no neighbours.
void PrefixIndex::UnlinkIdle(BlockId block) {
  Node& node = nodes_[block];
  if (idle_head_ != block && node.idle_previous == kNone) return;
  (node.idle_previous == kNone ? idle_head_ : nodes_[node.idle_previous].idle_next) =
      node.idle_next;
  (node.idle_next == kNone ? idle_tail_ : nodes_[node.idle_next].idle_previous) =
      node.idle_previous;
  node.idle_previous = node.idle_next = kNone;
  --num_idle_;
}

BlockId PrefixIndex::EvictOldest() {
  LOCKSTEP_CHECK(idle_head_ != kNone, "no node is idle");
  const BlockId block = idle_head_;
  Node& node = nodes_[block];
  LOCKSTEP_CHECK(node.num_children == 0, "the oldest idle node, block {}, has children", block);
  // No cache holds all of this data. So prefetch what is needed next: the next node to evict, and
  // the place of the block's new tokens.
  if (node.idle_next != kNone) __builtin_prefetch(&nodes_[node.idle_next]);
  __builtin_prefetch(&tokens_[size_t{block} * block_size_tokens_], /*rw=*/1);
  table_.erase(block);
  if (changes_ != nullptr) changes_->Forget(node.prefix);
  UnlinkIdle(block);
  if (node.parent != kNone) {
    --nodes_[node.parent].num_children;
  } else if (--node.root->second.num_children == 0) {
    roots_.erase(node.root);
  }
  node.serial = 0;
  --num_nodes_;
  return block;
}

absl::Status PrefixIndex::CheckIdleList() const {
  uint32_t num_idle = 0;
  BlockId previous = kNone;
  std::vector<bool> seen(nodes_.size(), false);
  for (BlockId block = idle_head_; block != kNone; block = nodes_[block].idle_next) {
    const Node& node = nodes_[block];
    if (seen[block]) return Internal("idle list: block {} comes twice", block);
    if (node.serial == 0 || node.num_users > 0)
      return Internal("idle list: block {} is not idle", block);
    if (node.idle_previous != previous)
      return Internal("idle list: broken link at block {}", block);
    if (node.parent != kNone && seen[node.parent]) {
      return Internal("idle list: block {} comes after its parent", block);
    }
    seen[block] = true;
    previous = block;
    ++num_idle;
  }
  if (idle_tail_ != previous) return Internal("idle list: the tail is not its last node");
  if (num_idle != num_idle_)
    return Internal("idle list: {} nodes, {} recorded", num_idle, num_idle_);
  return absl::OkStatus();
}

absl::Status PrefixIndex::CheckIntegrity(const std::vector<uint32_t>& references) const {
  std::vector<uint32_t> num_children(nodes_.size(), 0);
  std::vector<uint32_t> num_users(nodes_.size(), 0);
  std::map<uint64_t, uint32_t> root_children;  // by serial of the root
  uint32_t num_nodes = 0;
  uint32_t num_idle = 0;
  for (BlockId block = 0; block < nodes_.size(); ++block) {
    const Node& node = nodes_[block];
    if (node.serial == 0) continue;
    ++num_nodes;
    if (Find(MakeKey(node.parent_serial, TokensOf(block))) != block) {
      return Internal("index: the node of block {} is not found by its tokens", block);
    }
    if (references[block] > 0) ++num_users[block];
    const bool idle = node.num_users == 0;
    if (idle) ++num_idle;
    if (node.parent == kNone) {
      if (node.root->second.serial != node.parent_serial) {
        return Internal("index: the root of block {} is another one", block);
      }
      ++root_children[node.parent_serial];
      continue;
    }
    if (nodes_[node.parent].serial != node.parent_serial) {
      return Internal("index: the parent of block {} was evicted before it", block);
    }
    ++num_children[node.parent];
    if (!idle) ++num_users[node.parent];
  }
  for (BlockId block = 0; block < nodes_.size(); ++block) {
    const Node& node = nodes_[block];
    if (node.serial == 0) continue;
    if (node.num_children != num_children[block] || node.num_users != num_users[block]) {
      return Internal("index: block {} has {} children and {} users, {} and {} recorded", block,
                      num_children[block], num_users[block], node.num_children, node.num_users);
    }
  }
  if (num_nodes != num_nodes_ || table_.size() != num_nodes) {
    return Internal("index: {} nodes, {} recorded, {} in the table", num_nodes, num_nodes_,
                    table_.size());
  }
  if (root_children.size() != roots_.size()) return Internal("index: a root has no children");
  for (const auto& [key, root] : roots_) {
    if (root_children[root.serial] != root.num_children) {
      return Internal("index: a root has {} children, {} recorded", root_children[root.serial],
                      root.num_children);
    }
  }
  if (num_idle != num_idle_)
    return Internal("index: {} idle nodes, {} recorded", num_idle, num_idle_);
  return CheckIdleList();
}

}  // namespace lockstep::router
