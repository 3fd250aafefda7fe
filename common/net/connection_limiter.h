#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep {

// Limits connections, in total and for each address, so that no client takes all of them. Safe to
// use from any thread.
class ConnectionLimiter : public std::enable_shared_from_this<ConnectionLimiter> {
 public:
  // An IPv4 address, or the network part (64 bits) of an IPv6 address. A client with one address of
  // such a network usually has all of them.
  using AddressKey = std::array<uint8_t, 8>;
  enum class Verdict { kAdmitted, kTooMany, kTooManyOfAddress };

  // `max_per_address` 0: no limit for an address.
  ConnectionLimiter(uint32_t max_connections, uint32_t max_per_address)
      : max_connections_(max_connections), max_per_address_(max_per_address) {}

  // Returns a place, which is freed when it is destroyed. Null: not admitted. The limiter must be
  // owned by a shared pointer, because places keep it alive.
  std::pair<Verdict, std::shared_ptr<void>> Admit(const AddressKey& address) {
    {
      MutexLock lock(mutex_);
      if (num_connections_ >= max_connections_) return {Verdict::kTooMany, nullptr};
      if (max_per_address_ > 0) {
        uint32_t& count = by_address_[address];
        if (count >= max_per_address_) return {Verdict::kTooManyOfAddress, nullptr};
        ++count;
      }
      ++num_connections_;
    }
    return {Verdict::kAdmitted, std::make_shared<Place>(shared_from_this(), address)};
  }

  size_t num_connections() const {
    MutexLock lock(mutex_);
    return num_connections_;
  }

 private:
  struct Place {
    Place(std::shared_ptr<ConnectionLimiter> of, const AddressKey& from)
        : limiter(std::move(of)), address(from) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { limiter->Leave(address); }
    const std::shared_ptr<ConnectionLimiter> limiter;
    const AddressKey address;
  };

  void Leave(const AddressKey& address) {
    MutexLock lock(mutex_);
    --num_connections_;
    const auto found = by_address_.find(address);
    if (found != by_address_.end() && --found->second == 0) by_address_.erase(found);
  }

  const uint32_t max_connections_;
  const uint32_t max_per_address_;
  mutable Mutex mutex_;
  size_t num_connections_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<AddressKey, uint32_t> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
