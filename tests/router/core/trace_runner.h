#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "tests/router/core/model/model_worker.h"

namespace lockstep::router::testing {

// Plays a trace: commands in, plans and events out, as text. A line is one command; what it caused
// follows it, each line beginning with "  > ". Lines that begin with # and empty lines are kept.
//
//   config NAME=VALUE ...         before all others; policy=fcfs or priority (ageing 10 s)
//   attach NAME=VALUE ...         a new worker: blocks block_size slots step_tokens context
//   iterations detach submit KEY prompt=T,T,... [max_new=N] [n=N] [salt=S] [priority=N]
//   [deadline=SECONDS] [stop=T]
//          [min_new=N] [seed=N] [logprobs=N] [prompt_logprobs=N] [bypass=1]
//   plan                          NextStep
//   done [refuse=1] [fail=SLOT]   the worker runs the oldest plan, and its outcome is applied
//   cancel KEY | stop KEY SAMPLE | pass SECONDS | fail | stats
class TraceRunner {
 public:
  // The whole trace with what it causes now in the place of what it says.
  absl::StatusOr<std::string> Run(std::string_view trace);

 private:
  using Arguments = std::map<std::string, std::string>;

  absl::Status RunCommand(const std::vector<std::string>& words);
  absl::Status RunClientCommand(const std::vector<std::string>& words);
  absl::Status Configure(const Arguments& arguments);
  absl::Status Attach(const Arguments& arguments);
  absl::Status Submit(const std::string& key, const Arguments& arguments);
  absl::Status Plan();
  absl::Status Done(const Arguments& arguments);
  void PrintPlan(const StepPlan& plan);
  void PrintEvents();
  void PrintStats();
  void Print(std::string_view line);

  std::string out_;
  SchedulerConfig config_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelWorker> worker_;
  std::deque<StepPlan> planned_;
  Instant now_ = Instant();
};

}  // namespace lockstep::router::testing
