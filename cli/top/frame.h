#pragma once

#include <absl/time/time.h>

#include <string>

#include "cli/common/terminal.h"
#include "cli/top/metrics_text.h"

namespace lockstep::cli {

// What `lockstep top` shows. Pure. `before` is the scrape `passed` earlier; null: there is none,
// and the figures are those since the router's start, without rates.
std::string TopFrame(const MetricsText* before, const MetricsText& after, absl::Duration passed,
                     const Paint& paint);

}  // namespace lockstep::cli
