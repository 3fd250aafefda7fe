#pragma once

#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "common/instant.h"
#include "router/strands/strand.h"

namespace lockstep::router {

// Finds threads that no longer take work. A look sends a small strand to each thread that has taken
// its last one. So it costs nothing between two looks. Used by one thread, and only while the
// watched runners are open.
class StallWatch {
 public:
  // A thread is stalled if it has not taken a strand within `limit`.
  explicit StallWatch(absl::Duration limit);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

  // `name` is that of the runner's one thread.
  void Watch(std::string name, std::shared_ptr<StrandRunner> runner);

  // The names of stalled threads, separated by commas; empty: none.
  std::string Look(Instant now);

 private:
  class Pulse;
  struct Watched {
    std::string name;
    std::shared_ptr<StrandRunner> runner;
    std::shared_ptr<Pulse> pulse;
    Instant sent;
  };

  const absl::Duration limit_;
  std::vector<Watched> watched_;
};

}  // namespace lockstep::router
