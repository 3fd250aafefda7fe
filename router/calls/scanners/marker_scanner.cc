#include "router/calls/scanners/marker_scanner.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {

MarkerScanner::MarkerScanner(std::vector<std::string_view> markers) {
  std::string released;  // nothing waits yet
  SetMarkers(std::move(markers), released);
}

void MarkerScanner::SetMarkers(std::vector<std::string_view> markers, std::string& released) {
  markers_ = std::move(markers);
  is_empty_ = std::all_of(markers_.begin(), markers_.end(), [](auto m) { return m.empty(); });
  Release(released);
}

std::optional<size_t> MarkerScanner::Push(char c, std::string& released) {
  held_.push_back(c);
  Release(released);
  if (held_.empty()) return std::nullopt;
  for (size_t i = 0; i < markers_.size(); ++i) {
    if (markers_[i] != held_) continue;
    held_.clear();
    return i;
  }
  return std::nullopt;
}

// Keeps the longest end of the held text that a marker begins with.
void MarkerScanner::Release(std::string& released) {
  size_t num_dropped = 0;
  while (num_dropped < held_.size() && !IsPrefix(std::string_view(held_).substr(num_dropped))) {
    ++num_dropped;
  }
  released.append(held_, 0, num_dropped);
  held_.erase(0, num_dropped);
}

std::string MarkerScanner::TakeHeld() { return std::exchange(held_, {}); }

bool MarkerScanner::MayBegin(char c) const {
  for (const std::string_view marker : markers_) {
    if (!marker.empty() && marker[0] == c) return true;
  }
  return false;
}

bool MarkerScanner::IsPrefix(std::string_view text) const {
  for (const std::string_view marker : markers_) {
    if (marker.starts_with(text)) return true;
  }
  return false;
}

void TagChoice::Start(std::vector<std::string_view> tags) {
  tags_ = std::move(tags);
  seen_.clear();
}

TagChoice::State TagChoice::Push(char c) {
  if (seen_.empty() && IsJsonSpace(c)) return State::kMore;
  seen_.push_back(c);
  bool is_prefix = false;
  for (size_t i = 0; i < tags_.size(); ++i) {
    if (tags_[i].empty()) continue;
    if (tags_[i] == seen_) {
      index_ = i;
      return State::kMatched;
    }
    is_prefix = is_prefix || tags_[i].starts_with(seen_);
  }
  if (is_prefix) return State::kMore;
  seen_.pop_back();
  return State::kMismatch;
}

}  // namespace lockstep::router
