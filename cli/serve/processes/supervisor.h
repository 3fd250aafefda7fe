#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cli/serve/processes/console.h"
#include "cli/serve/processes/member.h"
#include "cli/serve/processes/upgrader.h"
#include "cli/serve/upgrade/control_socket.h"
#include "common/instant.h"

namespace lockstep::cli {

// Keeps the workers and the router of one machine running, from their first start until the user
// ends them. Has one thread. While the object exists, it handles SIGINT, SIGTERM, SIGCHLD, and
// SIGHUP unless that is ignored.
class Supervisor {
 public:
  struct Fleet {
    std::vector<MemberSpec> workers;
    MemberSpec router;  // starts once the first worker is ready
    RestartLimits limits;
  };
  // Called once, when all programs listen and the router's /healthz says that it is ready.
  using OnReady = std::function<void(const Member& router)>;

  Supervisor(Fleet fleet, std::unique_ptr<ControlSocket> control, Console* console,
             OnReady on_ready);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Runs until a signal has ended everything. OK after a drain, CANCELLED if a second signal cut
  // the drain short, another error if the start fails.
  absl::Status Run();

 private:
  enum class Phase { kStarting, kServing, kDrainingRouter, kDrainingWorkers };

  Member& router() { return members_.back(); }
  bool draining() const { return phase_ >= Phase::kDrainingRouter; }

  absl::Status StartDue(Instant now);
  void WaitForEvents(Instant now);
  absl::Status TakeSignals();
  absl::Status ReapAll(Instant now);
  absl::Status OnEnded(Member& member, const Member::Ended& end, Instant now);
  void WorkOnUpgrade();
  void ReadOutputs(Instant now);
  void OnListening(Member& member, Instant now);
  void ShowProgress();
  void LookWhetherReady();
  void Drain();
  void EndWorkers();
  bool AnyRuns() const;

  const OnReady on_ready_;
  Console* const console_;
  std::deque<Member> members_;  // the workers, then the router
  Upgrader upgrader_;
  Phase phase_ = Phase::kStarting;
  int signal_fd_ = -1;
  sigset_t previous_mask_;
};

}  // namespace lockstep::cli
