#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace lockstep::router {

// Bytes that many hold together. Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(size_t max_bytes) : max_bytes_(max_bytes) {}

  // What one of them holds; given back at the end of its life, which the budget outlives.
  class Share {
   public:
    Share() = default;
    explicit Share(ByteBudget& budget) : budget_(&budget) {}
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
      if (bytes > bytes_ && !budget_->Take(bytes - bytes_)) return false;
      if (bytes < bytes_) budget_->held_bytes_.fetch_sub(bytes_ - bytes);
      bytes_ = bytes;
      return true;
    }

   private:
    ByteBudget* budget_ = nullptr;
    size_t bytes_ = 0;
  };

  size_t held_bytes() const { return held_bytes_.load(); }

 private:
  bool Take(size_t bytes) {
    const size_t before = held_bytes_.fetch_add(bytes);
    if (bytes <= max_bytes_ && before <= max_bytes_ - bytes) return true;
    held_bytes_.fetch_sub(bytes);
    return false;
  }

  const size_t max_bytes_;
  std::atomic<size_t> held_bytes_ = 0;
};

}  // namespace lockstep::router
