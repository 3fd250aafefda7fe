#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace lockstep::router {

// Bytes that many hold together. Any thread.
class ByteBudget {
 public:
  // Who holds no more than this may use all of the budget, others not what is reserved: whoever
  // fills it with large things leaves room for everybody's small ones.
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  explicit ByteBudget(size_t max_bytes, size_t reserved_bytes = 0)
      : max_bytes_(max_bytes), max_large_bytes_(max_bytes - std::min(max_bytes, reserved_bytes)) {}

  // What one of them holds; given back at the end of its life, which the budget outlives. Of no
  // budget, it is always granted and counts nothing.
  class Share {
   public:
    Share() = default;
    explicit Share(ByteBudget& budget) : budget_(&budget) {}
    explicit Share(ByteBudget* budget) : budget_(budget) {}
    Share(Share&& other) noexcept
        : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      Resize(0);
      budget_ = other.budget_;
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Share() { Resize(0); }

    size_t bytes() const { return bytes_; }
    // False, and nothing changes, when there are not so many left. Fewer are always granted.
    bool Resize(size_t bytes) {
      if (budget_ == nullptr) return true;
      if (bytes > bytes_ && !budget_->Take(bytes - bytes_, bytes <= kSmallBytes)) return false;
      if (bytes < bytes_) budget_->held_bytes_.fetch_sub(bytes_ - bytes);
      bytes_ = bytes;
      return true;
    }

    // Also beyond what the budget has: for what is there already, and says why there is no more.
    void ResizeAnyway(size_t bytes) {
      if (budget_ == nullptr) return;
      budget_->held_bytes_.fetch_add(bytes - bytes_);  // modulo 2^64: the sum is exact
      bytes_ = bytes;
    }

   private:
    ByteBudget* budget_ = nullptr;
    size_t bytes_ = 0;
  };

  size_t held_bytes() const { return held_bytes_.load(); }

 private:
  bool Take(size_t bytes, bool small) {
    const size_t max_bytes = small ? max_bytes_ : max_large_bytes_;
    const size_t before = held_bytes_.fetch_add(bytes);
    if (bytes <= max_bytes && before <= max_bytes - bytes) return true;
    held_bytes_.fetch_sub(bytes);
    return false;
  }

  const size_t max_bytes_;
  const size_t max_large_bytes_;
  std::atomic<size_t> held_bytes_ = 0;
};

}  // namespace lockstep::router
