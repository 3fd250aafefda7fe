#pragma once

#include <absl/status/statusor.h>
#include <sched.h>

#include <string>

namespace lockstep::bench {

// Processors as in "0-3,8"; an error for what is no such list.
absl::StatusOr<cpu_set_t> ParseProcessors(const std::string& text);

// For as long as it lives, what this thread starts (threads, processes) runs on these processors
// only; with an empty list nothing changes. Threads that run already stay where they are.
class OnProcessors {
 public:
  // `text` has been parsed before.
  explicit OnProcessors(const std::string& text);
  OnProcessors(const OnProcessors&) = delete;
  OnProcessors& operator=(const OnProcessors&) = delete;
  ~OnProcessors();

 private:
  const bool active_;
  cpu_set_t before_ = {};
};

}  // namespace lockstep::bench
