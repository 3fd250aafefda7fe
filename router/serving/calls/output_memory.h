#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "router/limits/byte_budget.h"
#include "router/mailboxes/outbox.h"

namespace lockstep::router {

// Counts the bytes in an outbox as the tenant's (empty: no tenant). Null `memory`: counts nothing.
inline OutputMeter CountIn(std::shared_ptr<ByteBudget> memory, std::string_view tenant) {
  if (memory == nullptr) return nullptr;
  struct Counted {
    std::shared_ptr<ByteBudget> memory;
    ByteBudget::Share held;
  };
  ByteBudget::Share held(memory.get(), memory->AccountOf(tenant));
  const auto counted = std::make_shared<Counted>(std::move(memory), std::move(held));
  return [counted](size_t num_bytes) { return counted->held.Resize(num_bytes); };
}

}  // namespace lockstep::router
