#include "common/strands/fair_queue.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <utility>

namespace lockstep::router {
namespace {

// The cost of a strand that has almost nothing to do.
constexpr uint64_t kMinWorkBytes = 256;
constexpr size_t kPopsBetweenSweeps = 256;

}  // namespace

struct FairQueue::Class {
  std::deque<std::shared_ptr<Strand>> strands;
  uint64_t start = 0;  // of its next strand, in the owner's virtual time: bytes of work
};

struct FairQueue::Owner {
  std::array<Class, kNumClasses> classes;
  uint64_t start = 0;         // of its next strand, in the virtual time of the queue
  uint64_t virtual_time = 0;  // in which its classes share its work

  // The class that goes next. Null when none of the waiting strands may go.
  Class* Next(bool large_too) {
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

std::shared_ptr<Strand> FairQueue::Pop(bool large_too) {
  for (auto it = active_.begin(); it != active_.end(); ++it) {
    Owner& owner = *it->second;
    Class* const its_class = owner.Next(large_too);
    if (its_class == nullptr) continue;
    active_.erase(it);
    std::shared_ptr<Strand> strand = std::move(its_class->strands.front());
    its_class->strands.pop_front();
    const uint64_t work = std::max<uint64_t>(strand->num_work_bytes(), kMinWorkBytes);
    virtual_time_ = std::max(virtual_time_, owner.start);
    owner.start += work;
    owner.virtual_time = std::max(owner.virtual_time, its_class->start);
    its_class->start += work;
    if (!owner.idle()) active_.emplace(owner.start, &owner);
    if (++num_pops_ % kPopsBetweenSweeps == 0) ForgetIdleOwners();
    return strand;
  }
  return nullptr;
}

void FairQueue::Rest() {
  if (!active_.empty()) return;
  owners_.clear();
  virtual_time_ = 0;
}

std::vector<std::shared_ptr<Strand>> FairQueue::TakeAll() {
  std::vector<std::shared_ptr<Strand>> all;
  while (std::shared_ptr<Strand> strand = Pop(/*large_too=*/true)) all.push_back(std::move(strand));
  return all;
}

void FairQueue::ForgetIdleOwners() {
  absl::erase_if(owners_, [this](const auto& entry) {
    return entry.second->idle() && entry.second->start <= virtual_time_;
  });
}

}  // namespace lockstep::router
