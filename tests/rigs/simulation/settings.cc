#include "tests/rigs/simulation/settings.h"

#include <array>
#include <utility>

namespace lockstep::bench {
namespace {

SimulationOptions EightReplicas(uint32_t num_blocks, TraceOptions trace) {
  SimulationOptions options;
  options.num_workers = 8;
  options.worker.num_blocks = num_blocks;
  options.traces = {std::move(trace)};
  return options;
}

SimulationOptions Assistants() {
  return EightReplicas(1024, {.seed = 101,
                              .num_requests = 20000,
                              .conversations_per_s = 40,
                              .num_system_prompts = 256,
                              .system_prompt_skew = 0.9,
                              .system_tokens = {256, 1024},
                              .user_tokens = {16, 128},
                              .output_tokens = {16, 64},
                              .mean_turns = 1.25,
                              .mean_think_time = absl::Seconds(5)});
}

SimulationOptions Chat() {
  return EightReplicas(4096, {.seed = 202,
                              .num_requests = 20000,
                              .conversations_per_s = 10,
                              .num_system_prompts = 16,
                              .system_prompt_skew = 0.8,
                              .system_tokens = {32, 128},
                              .user_tokens = {32, 192},
                              .output_tokens = {32, 128},
                              .mean_turns = 6,
                              .mean_think_time = absl::Seconds(4),
                              .max_context_tokens = 4096});
}

SimulationOptions Hot() {
  return EightReplicas(1024, {.seed = 303,
                              .num_requests = 20000,
                              .conversations_per_s = 25,
                              .num_system_prompts = 64,
                              .system_prompt_skew = 1.6,
                              .system_tokens = {1024, 2048},
                              .user_tokens = {32, 256},
                              .output_tokens = {16, 128},
                              .mean_turns = 2,
                              .mean_think_time = absl::Seconds(5)});
}

SimulationOptions Overloaded() {
  SimulationOptions options = Assistants();
  options.traces[0].conversations_per_s *= 10;
  return options;
}

SimulationOptions Faults() {
  SimulationOptions options = Chat();
  options.num_workers = 20;
  options.faults.mean_between = absl::Seconds(60);
  options.replica.step_timeout = absl::Seconds(4);
  return options;
}

SimulationOptions FairnessAlone() {
  SimulationOptions options;
  options.num_workers = 2;
  options.admission.max_open_requests = 100'000;
  options.admission.max_waiting_requests = 100'000;
  options.admission.max_waiting_tokens = 1u << 30;
  options.replica.scheduler.max_waiting_requests = 100'000;
  options.replica.scheduler.max_waiting_tokens = 1u << 30;
  options.traces = {{.tenant = "small",
                     .seed = 505,
                     .num_requests = 200,
                     .conversations_per_s = 1,
                     .num_system_prompts = 16,
                     .system_tokens = {128, 512},
                     .user_tokens = {32, 256},
                     .output_tokens = {16, 128},
                     .mean_turns = 1}};
  return options;
}

SimulationOptions WholeFleet() {
  SimulationOptions options;
  options.num_workers = 1000;
  options.worker.num_blocks = 512;
  options.faults.mean_between = absl::Minutes(30);
  options.replica.step_timeout = absl::Seconds(4);
  options.admission.max_open_requests = 100'000;
  options.admission.max_waiting_requests = 50'000;
  options.admission.max_waiting_tokens = 64u << 20;
  options.traces = {{.seed = 404,
                     .num_requests = 1'000'000,
                     .conversations_per_s = 3000,
                     .num_system_prompts = 4096,
                     .system_prompt_skew = 0.9,
                     .system_tokens = {64, 512},
                     .user_tokens = {16, 128},
                     .output_tokens = {8, 32},
                     .mean_turns = 2,
                     .mean_think_time = absl::Seconds(5)}};
  return options;
}

// More than two replicas can do, from one tenant; a hundredth of it from another.
SimulationOptions Fairness() {
  SimulationOptions options = FairnessAlone();
  TraceOptions large = options.traces[0];
  large.tenant = "large";
  large.seed = 506;
  large.num_requests *= 100;
  large.conversations_per_s *= 100;
  options.traces.push_back(std::move(large));
  return options;
}

struct Setting {
  std::string_view name;
  SimulationOptions (*make)();
};
constexpr std::array kSettings = {
    Setting{"assistants", &Assistants},
    Setting{"chat", &Chat},
    Setting{"hot", &Hot},
    Setting{"overloaded", &Overloaded},
    Setting{"faults", &Faults},
    Setting{"fleet", &WholeFleet},
    Setting{"fairness", &Fairness},
    Setting{"fairness-alone", &FairnessAlone},
};

}  // namespace

std::optional<SimulationOptions> FindSetting(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (setting.name == name) return setting.make();
  }
  return std::nullopt;
}

std::vector<std::string_view> SettingNames() {
  std::vector<std::string_view> names;
  for (const Setting& setting : kSettings) names.push_back(setting.name);
  return names;
}

}  // namespace lockstep::bench
