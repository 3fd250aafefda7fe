#pragma once

#include <absl/time/time.h>

#include <string>

#include "cli/common/terminal.h"
#include "cli/top/metrics_text.h"

namespace lockstep::cli {

// What `lockstep top` shows. Pure. `before` is the scrape that was made `passed` before `after`. If
// it is null, the figures are those since the router's start, and there are no rates.
std::string TopFrame(const MetricsText* before, const MetricsText& after, absl::Duration passed,
                     const Paint& paint);

}  // namespace lockstep::cli
