#include "router/core/requests/worker_lease.h"

#include <utility>

namespace lockstep::router {

void WorkerLease::Release(std::unique_ptr<Residency> residency) {
  slots.Release(residency->slot);
  if (residency->rows_in_flight == 0) return;
  kv.Fence(residency->blocks);
  fenced.push_back(std::move(residency));
}

}  // namespace lockstep::router
