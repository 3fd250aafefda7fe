#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/serve/processes/console.h"
#include "cli/serve/processes/member.h"
#include "cli/serve/upgrade/control_socket.h"
#include "cli/serve/upgrade/roll_out.h"
#include "common/instant.h"

namespace lockstep::cli {

// Replaces the workers of a supervisor one by one by the program on disk, when a client of the
// control socket asks for it. The client may go away; the upgrade goes on. Lives on the
// supervisor's thread, and never waits for a client.
class Upgrader {
 public:
  // `members`: the workers, then the router. They and the console outlive this object.
  Upgrader(std::unique_ptr<ControlSocket> socket, std::deque<Member>* members, Console* console)
      : socket_(std::move(socket)), members_(*members), console_(*console) {}

  // Readable when Work has something to do; -1: only the time counts.
  int descriptor() const { return socket_->exhausted() ? -1 : socket_->descriptor(); }
  // Time of the next call of Work, even if nothing happens.
  Instant due(Instant now) const;
  // Serves the client, and does the next thing of the upgrade. `refusal`: why none may start now;
  // empty: it may.
  void Work(std::string_view refusal, Instant now);
  // A worker ended. True if the upgrade ended it: then the caller does not start it again.
  bool OnEnded(const Member& worker, const Member::Ended& end, Instant now);
  // The supervisor ends everything.
  void Stop();

 private:
  void Start(Instant now);
  std::vector<WorkerView> See() const;
  void Do(RollOut::Decision decision, Instant now);
  void End(Member& worker);
  void Fail(size_t worker, std::string_view reason);
  void Say(std::string_view text);
  void Finish(std::string_view word, std::string_view text);

  const std::unique_ptr<ControlSocket> socket_;
  std::deque<Member>& members_;
  Console& console_;
  std::optional<RollOut> roll_out_;  // none: no upgrade runs
  Instant next_look_ = Instant::InfinitePast();
};

}  // namespace lockstep::cli
