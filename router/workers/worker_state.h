#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::router {

// What the router can say of a worker. kStandby: another router serves the worker, or is about to.
enum class WorkerState { kConnecting, kReady, kDraining, kLost, kMismatched, kStandby };

// By WorkerState, as metrics and /status.json name them.
inline constexpr std::array<std::string_view, 6> kWorkerStateNames = {
    "connecting", "ready", "draining", "lost", "mismatched", "standby"};

constexpr std::string_view WorkerStateName(WorkerState state) {
  return kWorkerStateNames.at(static_cast<size_t>(state));
}

// The router that a worker belongs to: this one, or another one (--shard).
enum class WorkerOwner { kSelf, kOther };

}  // namespace lockstep::router
