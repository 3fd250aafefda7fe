#pragma once

#include "common/flag.h"
#include "worker/worker_config.h"

namespace lockstep::worker {

// The flags that only lockstep-worker has. They set fields of `config`. The values of the fields
// are the defaults. docs/configuration.md has a row for each.
FlagTable WorkerFlags(WorkerConfig& config);

}  // namespace lockstep::worker
