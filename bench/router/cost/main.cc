// lockstep-router-cost: what the router itself costs. Starts a worker that answers every step after
// a fixed time without computing anything and the real lockstep-router as children, and clients;
// reads the processor time of the router's process between two moments of a steady load.
//
//   grpc-stream, sse-stream    streams of one token a step: time per message or event
//   requests, requests-text    new requests of one token, prompts of token ids or of text: time
//                              per request, and how much later than the worker's step time their
//                              first token comes
//   grpc-idle, sse-idle        streams that wait for a worker: resident memory per stream
//
// One JSON object a line; exits with 1 when counts do not add up. Client, worker and router share
// the machine: give it more cores than they need, or read the processor time only.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/router/cost/cost_cases.h"
#include "common/status.h"

ABSL_FLAG(std::string, model, "", "folder with config.json and tokenizer.json");
ABSL_FLAG(std::string, router, "",
          "the router's program; default: lockstep-router beside this one");
ABSL_FLAG(std::vector<std::string>, router_flags, {}, "more flags of the router");
ABSL_FLAG(std::vector<std::string>, cases, lockstep::bench::CostCases(), "see above");
ABSL_FLAG(uint32_t, streams, 256, "at once");
ABSL_FLAG(uint32_t, connections, 8, "of gRPC, for all streams together");
ABSL_FLAG(double, steps_per_second, 200, "of the worker in the cases of streams");
ABSL_FLAG(double, seconds, 10, "that are measured");
ABSL_FLAG(double, rate, 1000, "new requests per second");
ABSL_FLAG(absl::Duration, request_step_time, absl::ZeroDuration(),
          "of the worker in the cases of requests");
ABSL_FLAG(uint32_t, prompt_tokens, 500, "of new requests; in text as many words");

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  std::string router = absl::GetFlag(FLAGS_router);
  if (router.empty()) router = self.parent_path() / "lockstep-router";
  const lockstep::bench::CostOptions options{
      .router_program = router,
      .worker_program = self.parent_path() / "lockstep-instant-worker",
      .model = absl::GetFlag(FLAGS_model),
      .router_flags = absl::GetFlag(FLAGS_router_flags),
      .num_streams = absl::GetFlag(FLAGS_streams),
      .num_connections = absl::GetFlag(FLAGS_connections),
      .steps_per_second = absl::GetFlag(FLAGS_steps_per_second),
      .window = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
      .requests_per_second = absl::GetFlag(FLAGS_rate),
      .request_step_time = absl::GetFlag(FLAGS_request_step_time),
      .num_prompt_tokens = absl::GetFlag(FLAGS_prompt_tokens)};
  for (const std::string& name : absl::GetFlag(FLAGS_cases)) {
    const absl::Status status = lockstep::bench::RunCostCase(options, name);
    if (status.ok()) continue;
    std::fprintf(stderr, "lockstep-router-cost: %s: %s\n", name.c_str(),
                 lockstep::Message(status).c_str());
    return 1;
  }
  return 0;
}
