// lockstep-instant-worker: a worker that computes nothing, for measuring what is around it. Prints
// the line of every server of ours when it listens; SIGUSR1 holds the steps from then on; ends with
// its parent.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "common/status.h"
#include "tests/rigs/instant_worker/instant_worker.h"

ABSL_FLAG(std::string, model, "", "folder with config.json and tokenizer.json");
ABSL_FLAG(uint32_t, max_slots, 256, "sequences at once");
ABSL_FLAG(uint32_t, window, 0, "tokens of the window of a second KV group; 0: one group");
ABSL_FLAG(absl::Duration, step_time, absl::ZeroDuration(), "of every step");

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Before there are threads, which inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto worker = lockstep::bench::InstantWorker::Start(
      absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_max_slots), absl::GetFlag(FLAGS_window));
  if (!worker.ok()) {
    std::fprintf(stderr, "lockstep-instant-worker: %s\n",
                 lockstep::Message(worker.status()).c_str());
    return 1;
  }
  (*worker)->runner().SetStepTime(absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_step_time)));
  std::printf("LISTENING grpc=%s admin=none\n", (*worker)->address().c_str());
  std::fflush(stdout);
  for (int signal_number = 0;;) {
    if (sigwait(&signals, &signal_number) == 0) (*worker)->runner().Hold();
  }
}
