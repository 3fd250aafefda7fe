#pragma once

#include <absl/status/status.h>

#include <initializer_list>

#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/exchange/exchange.h"

// What the ops with an exchange refuse.
namespace lockstep::kernels {

// INVALID_ARGUMENT, naming `op`, for a group that cannot be, or unaligned addresses.
inline absl::Status CheckExchange(const char* op, const ExchangeGroup& group,
                                  std::initializer_list<const void*> addresses) {
  if (group.degree < 2 || group.degree > kMaxExchangeRanks || group.rank < 0 ||
      group.rank >= group.degree || group.max_push_bytes % kExchangeUnitBytes != 0) {
    return InvalidArgument("{}: rank {} of {}, at most {} ranks; pushes up to {} bytes", op,
                           group.rank, group.degree, kMaxExchangeRanks, group.max_push_bytes);
  }
  for (const void* const address : addresses) {
    if (!IsAligned(address, kExchangeUnitBytes)) {
      return InvalidArgument("{}: rows must be aligned to {} bytes", op, kExchangeUnitBytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
