#include "router/text/stop_matcher.h"

#include <deque>

namespace lockstep::router {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings, bool include_stop)
    : stop_strings_(std::move(stop_strings)), include_stop_(include_stop), nodes_(1) {
  for (size_t i = 0; i < stop_strings_.size(); ++i) AddString(i);
  SetFallbacks();
}

void StopMatcher::AddString(size_t index) {
  uint32_t node = 0;
  for (const char c : stop_strings_[index]) {
    if (const std::optional<uint32_t> child = Child(node, c)) {
      node = *child;
      continue;
    }
    const uint32_t added = static_cast<uint32_t>(nodes_.size());
    nodes_[node].children.emplace_back(c, added);
    nodes_.emplace_back();
    nodes_.back().depth = nodes_[node].depth + 1;
    node = added;
  }
  if (!nodes_[node].complete) nodes_[node].complete = index;
}

// Breadth first, so that shorter suffixes are ready.
void StopMatcher::SetFallbacks() {
  std::deque<uint32_t> queue = {0};
  while (!queue.empty()) {
    const uint32_t node = queue.front();
    queue.pop_front();
    for (const auto& [c, child] : nodes_[node].children) {
      if (node != 0) nodes_[child].fallback = Next(nodes_[node].fallback, c);
      if (!nodes_[child].complete) {
        nodes_[child].complete = nodes_[nodes_[child].fallback].complete;
      }
      queue.push_back(child);
    }
  }
}

std::optional<uint32_t> StopMatcher::Child(uint32_t node, char c) const {
  for (const auto& [label, child] : nodes_[node].children) {
    if (label == c) return child;
  }
  return std::nullopt;
}

uint32_t StopMatcher::Next(uint32_t node, char c) const {
  while (true) {
    if (const std::optional<uint32_t> child = Child(node, c)) return *child;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

StopMatcher::Output StopMatcher::Push(std::string_view piece, bool may_match) {
  if (matched_) return {};
  held_ += piece;
  const size_t num_old = held_.size() - piece.size();
  for (size_t i = 0; i <= piece.size(); ++i) {
    // Before the piece's first byte, only the empty string can be new.
    const std::optional<size_t> complete = nodes_[i == 0 ? 0 : state_].complete;
    if (complete && may_match) {
      matched_ = true;
      const size_t end = num_old + i;
      const size_t stop_bytes = stop_strings_[*complete].size();
      Output output{held_.substr(0, include_stop_ ? end : end - stop_bytes), complete};
      held_.clear();
      return output;
    }
    if (i < piece.size()) state_ = Next(state_, piece[i]);
  }
  const size_t num_safe = held_.size() - nodes_[state_].depth;
  Output output{held_.substr(0, num_safe), std::nullopt};
  held_.erase(0, num_safe);
  return output;
}

std::string StopMatcher::Flush() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace lockstep::router
