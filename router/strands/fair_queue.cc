#include "router/strands/fair_queue.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <string_view>
#include <utility>

namespace lockstep::router {
namespace {

using std::chrono::nanoseconds;

// The time of a strand that has almost nothing to do.
constexpr nanoseconds kMinTime{10'000};
// The approximate time to read and tokenize a byte of text.
constexpr nanoseconds kTimePerByte{50};
constexpr size_t kPopsBetweenSweeps = 256;

nanoseconds Estimate(const Strand& strand) {
  return std::max(kMinTime, kTimePerByte * static_cast<int64_t>(strand.num_work_bytes()));
}

}  // namespace

struct FairQueue::Class {
  std::deque<std::shared_ptr<Strand>> strands;
  nanoseconds start{};  // of its next strand, in the owner's virtual time
};

struct FairQueue::Owner {
  std::array<Class, kNumClasses> classes;
  nanoseconds start{};         // of its next strand, in the virtual time of the queue
  nanoseconds virtual_time{};  // shared by the owner's classes
  size_t num_running = 0;
  size_t num_large_running = 0;

  // The class that goes next. Null when none of the waiting strands may go.
  Class* Next(Large large) {
    const bool large_too =
        large == Large::kAll || (large == Large::kOfNewOwners && num_large_running == 0);
    Class* next = nullptr;
    for (size_t i = 0; i < (large_too ? kNumClasses : kLargeClass); ++i) {
      if (classes[i].strands.empty()) continue;
      if (next == nullptr || classes[i].start < next->start) next = &classes[i];
    }
    return next;
  }
  bool idle() const {
    return std::all_of(classes.begin(), classes.end(),
                       [](const Class& c) { return c.strands.empty(); });
  }
};

FairQueue::FairQueue() = default;
FairQueue::~FairQueue() = default;

size_t FairQueue::ClassOf(const Strand& strand) {
  const size_t num_bytes = strand.num_work_bytes();
  if (num_bytes <= (size_t{4} << 10)) return 0;
  if (num_bytes <= (size_t{16} << 10)) return 1;
  return IsLarge(strand) ? kLargeClass : 2;
}

FairQueue::Owner& FairQueue::OwnerOf(const Strand& strand) {
  const std::string_view name = strand.owner();
  const auto found = owners_.find(absl::string_view(name.data(), name.size()));
  if (found != owners_.end()) return *found->second;
  return *owners_.emplace(name, std::make_unique<Owner>()).first->second;
}

void FairQueue::Push(std::shared_ptr<Strand> strand) {
  Owner& owner = OwnerOf(*strand);
  if (owner.idle()) {
    // Time that an owner, or a class, did not use is not saved up.
    owner.start = std::max(owner.start, virtual_time_);
    active_.emplace(owner.start, &owner);
  }
  Class& its_class = owner.classes[ClassOf(*strand)];
  if (its_class.strands.empty()) its_class.start = std::max(its_class.start, owner.virtual_time);
  its_class.strands.push_back(std::move(strand));
}

FairQueue::Turn FairQueue::Pop(Large large) {
  for (auto it = active_.begin(); it != active_.end(); ++it) {
    Owner& owner = *it->second;
    Class* const its_class = owner.Next(large);
    if (its_class == nullptr) continue;
    active_.erase(it);
    Turn turn;
    turn.strand = std::move(its_class->strands.front());
    turn.large = IsLarge(*turn.strand);
    turn.owner = &owner;
    turn.size_class = its_class;
    turn.estimate = Estimate(*turn.strand);
    its_class->strands.pop_front();
    virtual_time_ = std::max(virtual_time_, owner.start);
    owner.start += turn.estimate;
    owner.virtual_time = std::max(owner.virtual_time, its_class->start);
    its_class->start += turn.estimate;
    ++owner.num_running;
    owner.num_large_running += turn.large;
    if (!owner.idle()) active_.emplace(owner.start, &owner);
    if (++num_pops_ % kPopsBetweenSweeps == 0) ForgetIdleOwners();
    return turn;
  }
  return {};
}

void FairQueue::Finish(const Turn& turn, nanoseconds taken) {
  Owner& owner = *turn.owner;
  const nanoseconds correction = std::max(kMinTime, taken) - turn.estimate;
  const bool waits = active_.erase({owner.start, &owner}) > 0;
  owner.start += correction;
  turn.size_class->start += correction;
  --owner.num_running;
  owner.num_large_running -= turn.large;
  if (waits) active_.emplace(owner.start, &owner);
}

void FairQueue::Rest() {
  if (!active_.empty()) return;
  owners_.clear();
  virtual_time_ = nanoseconds(0);
}

std::vector<std::shared_ptr<Strand>> FairQueue::TakeAll() {
  std::vector<std::shared_ptr<Strand>> all;
  for (auto& [start, owner] : active_) {
    for (Class& its_class : owner->classes) {
      all.insert(all.end(), std::move_iterator(its_class.strands.begin()),
                 std::move_iterator(its_class.strands.end()));
      its_class.strands.clear();
    }
  }
  active_.clear();
  return all;
}

void FairQueue::ForgetIdleOwners() {
  absl::erase_if(owners_, [this](const auto& entry) {
    const Owner& owner = *entry.second;
    return owner.idle() && owner.num_running == 0 && owner.start <= virtual_time_;
  });
}

}  // namespace lockstep::router
