#include "router/serving/status/request_board.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"

namespace lockstep::router {

std::string_view RequestStateName(RequestState state) {
  switch (state) {
    case RequestState::kWaiting:
      return "waiting";
    case RequestState::kRunning:
      return "running";
    case RequestState::kDone:
      return "done";
    case RequestState::kFailed:
      return "failed";
  }
  return "";
}

void RequestBoard::Entry::AddOutput(uint32_t count, Instant now) {
  if (count == 0) return;
  if (first_token_ns_.load(std::memory_order_relaxed) < 0) {
    first_token_ns_.store(absl::ToInt64Nanoseconds(now - arrival_), std::memory_order_relaxed);
  }
  num_output_tokens_.fetch_add(count, std::memory_order_relaxed);
}

std::shared_ptr<RequestBoard::Entry> RequestBoard::Enter(std::string id, std::string_view tenant,
                                                         uint32_t num_prompt_tokens, Instant now) {
  auto entry = std::make_shared<Entry>();
  entry->id_ = std::move(id);
  entry->tenant_ = tenant;
  entry->arrival_ = now;
  entry->num_prompt_tokens_ = num_prompt_tokens;
  MutexLock lock(mutex_);
  open_.insert(entry);
  return entry;
}

void RequestBoard::Leave(const std::shared_ptr<Entry>& entry, bool ok, Instant now) {
  Ended ended = {.tenant = entry->tenant_, .ended_at = now, .view = ViewOf(*entry, now)};
  ended.view.state = ok ? RequestState::kDone : RequestState::kFailed;
  MutexLock lock(mutex_);
  open_.erase(entry);
  Keep(std::move(ended), now);
}

void RequestBoard::Keep(Ended ended, Instant now) {
  if (ended_.size() < kMaxEnded) {
    ended_.push_back(std::move(ended));
    return;
  }
  // The next entry to forget: a request that ended too long ago, otherwise the quickest.
  const auto worth = [now](const Ended& of) {
    return now - of.ended_at > kKept ? -absl::InfiniteDuration() : of.view.age;
  };
  const auto least = std::ranges::min_element(ended_, {}, worth);
  if (worth(*least) < ended.view.age) *least = std::move(ended);
}

RequestView RequestBoard::ViewOf(const Entry& entry, Instant now) {
  RequestView view = {
      .id = entry.id_,
      .age = now - entry.arrival_,
      .num_prompt_tokens = entry.num_prompt_tokens_,
      .num_output_tokens = entry.num_output_tokens_.load(std::memory_order_relaxed)};
  const int64_t first_token = entry.first_token_ns_.load(std::memory_order_relaxed);
  if (first_token >= 0) {
    view.state = RequestState::kRunning;
    view.first_token = absl::Nanoseconds(first_token);
  }
  return view;
}

std::vector<RequestView> RequestBoard::Slowest(size_t max_count, Instant now) const {
  return Collect(nullptr, max_count, now);
}

std::vector<RequestView> RequestBoard::SlowestOf(std::string_view tenant, size_t max_count,
                                                 Instant now) const {
  return Collect(&tenant, max_count, now);
}

std::vector<RequestView> RequestBoard::Collect(const std::string_view* tenant, size_t max_count,
                                               Instant now) const {
  std::vector<RequestView> views;
  {
    MutexLock lock(mutex_);
    for (const auto& entry : open_) {
      if (tenant == nullptr || entry->tenant_ == *tenant) views.push_back(ViewOf(*entry, now));
    }
    for (const Ended& ended : ended_) {
      const bool wanted = tenant == nullptr || ended.tenant == *tenant;
      if (wanted && now - ended.ended_at <= kKept) views.push_back(ended.view);
    }
  }
  const size_t count = std::min(max_count, views.size());
  std::ranges::partial_sort(views, views.begin() + static_cast<std::ptrdiff_t>(count),
                            [](const RequestView& a, const RequestView& b) {
                              return a.age != b.age ? a.age > b.age : a.id < b.id;
                            });
  views.resize(count);
  return views;
}

}  // namespace lockstep::router
