#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tests/rigs/simulation/simulation.h"

namespace lockstep::bench {

// What placement is judged by: three workloads on 8 replicas without faults, each with every
// parameter and seed. They were fixed before placement was tuned and do not change with it.
//
//   assistants  many system prompts, short conversations: more prefixes than one replica holds
//   chat        few system prompts, long conversations with pauses: most of what is cached is
//               history that one replica computed
//   hot         one system prompt in two requests: where the cached prefix alone would decide, one
//               replica would get all of it
//
// `overloaded`, `fleet` and `faults` are no measure of placement: a fleet beyond what it can do,
// 1,000 workers with 1,000,000 requests, and one that fails all the time. `fairness` is a small
// tenant beside one that sends a hundred times as much and more than there is room for;
// `fairness-alone` is the small one without it.
std::optional<SimulationOptions> FindSetting(std::string_view name);
std::vector<std::string_view> SettingNames();

}  // namespace lockstep::bench
