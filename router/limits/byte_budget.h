#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::router {

// A limit on bytes that many holders share. Safe to use from any thread.
class ByteBudget {
 public:
  // The bytes of one owner, which is a tenant. An owner may hold as much as is still free. So one
  // owner alone gets half of the budget, and n owners leave the next one as much as each of them
  // has.
  class Account {
   public:
    size_t held_bytes() const { return held_bytes_.load(); }

   private:
    friend class ByteBudget;
    std::atomic<size_t> held_bytes_ = 0;
  };

  // A share of at most this size may use the whole budget. A larger share may not use the reserved
  // part. So large things leave room for small ones.
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  explicit ByteBudget(size_t max_bytes, size_t reserved_bytes = 0)
      : max_bytes_(max_bytes), max_large_bytes_(max_bytes - std::min(max_bytes, reserved_bytes)) {}

  // Bytes of one holder. The destructor gives them back; the budget must live longer. A share
  // without a budget grants everything and counts nothing.
  class Share {
   public:
    Share() = default;
    explicit Share(ByteBudget& budget) : budget_(&budget) {}
    explicit Share(ByteBudget* budget, Account* account = nullptr)
        : budget_(budget), account_(account) {}
    Share(Share&& other) noexcept
        : budget_(other.budget_),
          account_(other.account_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      Resize(0);
      budget_ = other.budget_;
      account_ = other.account_;
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Share() { Resize(0); }

    size_t bytes() const { return bytes_; }
    Account* account() const { return account_; }
    // Counts the bytes as this owner's from now on. Null: no owner, only the budget is a bound.
    void ChargeTo(Account* account) {
      if (account_ != nullptr) account_->held_bytes_.fetch_sub(bytes_);
      account_ = account;
      if (account_ != nullptr) account_->held_bytes_.fetch_add(bytes_);
    }
    // Returns false, and changes nothing, if too few bytes are left. Shrinking always succeeds.
    bool Resize(size_t bytes) {
      if (budget_ == nullptr) return true;
      if (bytes > bytes_ && !budget_->Take(bytes - bytes_, bytes <= kSmallBytes, account_)) {
        return false;
      }
      if (bytes < bytes_) ResizeAnyway(bytes);
      bytes_ = bytes;
      return true;
    }

    // Succeeds even beyond the budget. For bytes that exist already, and for short errors.
    void ResizeAnyway(size_t bytes) {
      if (budget_ == nullptr) return;
      budget_->held_bytes_.fetch_add(bytes - bytes_);  // modulo 2^64: the sum is exact
      if (account_ != nullptr) account_->held_bytes_.fetch_add(bytes - bytes_);
      bytes_ = bytes;
    }

   private:
    ByteBudget* budget_ = nullptr;
    Account* account_ = nullptr;
    size_t bytes_ = 0;
  };

  size_t held_bytes() const { return held_bytes_.load(); }
  // The account of all callers without a key, or with a key that was not read yet.
  Account& strangers() { return strangers_; }
  // True if a small share of this size would be granted now.
  bool HasRoomFor(size_t bytes) const {
    const size_t held = held_bytes_.load();
    return held <= max_bytes_ && bytes <= max_bytes_ - held;
  }
  // The account of this name, which lives as long as the budget. Null for an empty name.
  Account* AccountOf(std::string_view owner) {
    if (owner.empty()) return nullptr;
    MutexLock lock(mutex_);
    const auto found = accounts_.find(owner);
    if (found != accounts_.end()) return &found->second;
    return &accounts_.try_emplace(std::string(owner)).first->second;
  }

 private:
  bool Take(size_t bytes, bool small, Account* account) {
    const size_t max_bytes = small ? max_bytes_ : max_large_bytes_;
    const size_t before = held_bytes_.fetch_add(bytes);
    bool granted = bytes <= max_bytes && before <= max_bytes - bytes;
    if (granted && account != nullptr) {
      const size_t num_left = max_bytes - bytes - before;
      granted = account->held_bytes_.fetch_add(bytes) + bytes <= num_left;
      if (!granted) account->held_bytes_.fetch_sub(bytes);
    }
    if (!granted) held_bytes_.fetch_sub(bytes);
    return granted;
  }

  const size_t max_bytes_;
  const size_t max_large_bytes_;
  std::atomic<size_t> held_bytes_ = 0;
  Account strangers_;
  Mutex mutex_;
  std::map<std::string, Account, std::less<>> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
