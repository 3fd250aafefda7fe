#pragma once

#include "common/flag.h"
#include "router/router_config.h"

namespace lockstep::router {

// The flags that only lockstep-router has. They set fields of `config`. The values of the fields
// are the defaults. docs/configuration.md has a row for each.
FlagTable RouterFlags(RouterConfig& config);

}  // namespace lockstep::router
