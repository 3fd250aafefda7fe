#include "bench/router/cost/cost_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#include "bench/router/cost/grpc_load.h"
#include "bench/router/cost/sse_load.h"
#include "common/model_files/model_config.h"
#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/quantile.h"

namespace lockstep::bench {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(120);
// Streams are measured once they have run for so long, and run on for as long as this after it.
constexpr absl::Duration kSettling = absl::Milliseconds(500);
constexpr uint32_t kStreamPromptTokens = 16;

// The router and its worker, and how to add a stream to them.
struct Setup {
  testing::ChildProcess worker;
  std::unique_ptr<RouterProcess> router;
  std::unique_ptr<GrpcLoad> grpc;
  std::unique_ptr<SseLoad> sse;

  LoadRecord& record() const { return grpc != nullptr ? grpc->record() : sse->record(); }
  absl::Status Open(const StreamShape& shape) const {
    if (sse != nullptr) return sse->Open(shape);
    grpc->Open(shape);
    return absl::OkStatus();
  }
  // Fails with what went wrong, or with the counts.
  absl::Status Await(const std::string& what,
                     const std::function<bool(const LoadCounts&)>& holds) const {
    if (record().WaitUntil(kPatience, holds)) return absl::OkStatus();
    const LoadCounts now = record().counts();
    return Internal("in vain: {}; {} streams have begun, {} ended, {} tokens came{}{}", what,
                    now.num_begun, now.num_ended, now.num_tokens, now.error.empty() ? "" : "; ",
                    now.error);
  }
};

enum class Api { kGrpc, kSse };

// Three processes, as anywhere: gRPC's threads of one poll each other's sockets.
absl::StatusOr<Setup> MakeSetup(const CostOptions& options, Api api, uint32_t max_running,
                                absl::Duration step_time) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      testing::ChildProcess worker,
      testing::ChildProcess::Start({options.worker_program, "--model=" + options.model,
                                    fmt::format("--max_slots={}", max_running),
                                    "--step_time=" + absl::FormatDuration(step_time)}));
  Setup setup = {.worker = std::move(worker), .router = {}, .grpc = {}, .sse = {}};
  std::vector<std::string> flags = {
      fmt::format("--max_running_sequences={}", max_running),
      fmt::format("--max_concurrent_streams={}", std::max(1024u, 2 * max_running))};
  flags.insert(flags.end(), options.router_flags.begin(), options.router_flags.end());
  LOCKSTEP_ASSIGN_OR_RETURN(setup.router,
                            RouterProcess::Start({.program = options.router_program,
                                                  .model = options.model,
                                                  .worker = setup.worker.grpc_address(),
                                                  .more_flags = flags}));
  LOCKSTEP_RETURN_IF_ERROR(setup.router->WaitUntilReady());
  if (api == Api::kGrpc) {
    setup.grpc = std::make_unique<GrpcLoad>(setup.router->grpc_address(), options.num_connections);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(setup.sse, SseLoad::Make(setup.router->http_address()));
  }
  return setup;
}

// What the process used, and clients saw, between two moments.
struct Window {
  double seconds = 0.0;
  CpuTime used;
  LoadCounts seen;
};

absl::StatusOr<Window> Measure(const Setup& setup, const std::function<void()>& wait) {
  Window window;
  const LoadCounts seen_before = setup.record().counts();
  LOCKSTEP_ASSIGN_OR_RETURN(const CpuTime before, setup.router->ReadCpuTime());
  const Clock::time_point start = Clock::now();
  wait();
  LOCKSTEP_ASSIGN_OR_RETURN(window.used, setup.router->ReadCpuTime());
  window.seconds = SecondsSince(start);
  window.seen = setup.record().counts();
  window.seen.num_chunks -= seen_before.num_chunks;
  window.seen.num_tokens -= seen_before.num_tokens;
  window.seen.num_begun -= seen_before.num_begun;
  window.used.seconds -= before.seconds;
  window.used.num_switches -= before.num_switches;
  for (const auto& [thread, seconds] : before.seconds_by_thread) {
    window.used.seconds_by_thread[thread] -= seconds;
  }
  return window;
}

// "text": 1.23, ... of threads that used something.
std::string ThreadsPer(const CpuTime& used, double count) {
  std::string text;
  for (const auto& [thread, seconds] : used.seconds_by_thread) {
    const double us = seconds * 1e6 / count;
    if (us < 0.01) continue;
    fmt::format_to(std::back_inserter(text), "{}\"{}\": {:.2f}", text.empty() ? "" : ", ", thread,
                   us);
  }
  return text;
}

void Print(const std::string& name, const std::string& members) {
  std::printf("{\"case\": \"%s\", %s}\n", name.c_str(), members.c_str());
  std::fflush(stdout);
}

absl::Status CheckTokens(const Setup& setup, uint64_t expected) {
  const uint64_t came = setup.record().counts().num_tokens;
  if (came != expected) return Internal("{} tokens came, {} were asked for", came, expected);
  LOCKSTEP_ASSIGN_OR_RETURN(const double counted,
                            setup.router->ReadMetric("lockstep_router_generation_tokens_total"));
  if (counted != static_cast<double>(expected)) {
    return Internal("the router counted {} tokens, {} were asked for", counted, expected);
  }
  return absl::OkStatus();
}

absl::Status OpenAll(const Setup& setup, const ModelConfig& model, uint32_t num_streams,
                     uint32_t num_output_tokens) {
  const StreamShape shape{.num_prompt_tokens = kStreamPromptTokens,
                          .num_output_tokens = num_output_tokens,
                          .vocab_size = model.vocab_size};
  for (uint32_t i = 0; i < num_streams; ++i) LOCKSTEP_RETURN_IF_ERROR(setup.Open(shape));
  return setup.Await("a first token for every stream",
                     [&](const LoadCounts& now) { return now.num_begun == num_streams; });
}

// --- what a token of a running stream costs ---

absl::Status RunStreams(const CostOptions& options, const std::string& name, Api api) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(options.model));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Setup setup,
      MakeSetup(options, api, options.num_streams, absl::Seconds(1.0 / options.steps_per_second)));
  const absl::Duration length = options.window + 4 * kSettling;
  const auto num_tokens =
      static_cast<uint32_t>(absl::ToDoubleSeconds(length) * options.steps_per_second);
  if (num_tokens + kStreamPromptTokens > model.max_context_tokens) {
    return InvalidArgument("seconds: {} tokens a stream do not fit the model's context",
                           num_tokens);
  }
  LOCKSTEP_RETURN_IF_ERROR(OpenAll(setup, model, options.num_streams, num_tokens));
  PaceFor(kSettling);
  LOCKSTEP_ASSIGN_OR_RETURN(const Window window, Measure(setup, [&] { PaceFor(options.window); }));
  if (window.seen.num_ended > 0) return Internal("streams ended while they were measured");
  LOCKSTEP_RETURN_IF_ERROR(setup.Await("the end of every stream", [&](const LoadCounts& now) {
    return now.num_ended == options.num_streams;
  }));
  LOCKSTEP_RETURN_IF_ERROR(CheckTokens(setup, uint64_t{options.num_streams} * num_tokens));
  const auto num_chunks = static_cast<double>(window.seen.num_chunks);
  Print(name,
        fmt::format("\"streams\": {}, \"steps_per_s\": {}, \"chunks_per_s\": {:.0f}, "
                    "\"cpu_us_per_chunk\": {:.2f}, \"cores\": {:.3f}, \"sleeps_per_chunk\": "
                    "{:.3f}, \"us_by_thread\": {{{}}}",
                    options.num_streams, options.steps_per_second, num_chunks / window.seconds,
                    window.used.seconds * 1e6 / num_chunks, window.used.seconds / window.seconds,
                    static_cast<double>(window.used.num_switches) / num_chunks,
                    ThreadsPer(window.used, num_chunks)));
  return absl::OkStatus();
}

// --- what a new request costs, and how long it waits for its first token ---

// Requests of one token each, at random times.
absl::Status OpenAtRate(const Setup& setup, const StreamShape& shape, double per_second,
                        absl::Duration duration, uint32_t& num_opened) {
  std::mt19937 random(num_opened);
  std::exponential_distribution<double> gap(per_second);
  Clock::time_point next = Clock::now();
  const Clock::time_point end = next + absl::ToChronoNanoseconds(duration);
  while (next < end) {
    PaceUntil(next);
    LOCKSTEP_RETURN_IF_ERROR(setup.Open(shape));
    ++num_opened;
    next += SecondsToDuration(gap(random));
  }
  return absl::OkStatus();
}

absl::Status RunRequests(const CostOptions& options, const std::string& name, bool as_text) {
  constexpr uint32_t kMaxRunning = 1024;
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(options.model));
  LOCKSTEP_ASSIGN_OR_RETURN(const Setup setup,
                            MakeSetup(options, Api::kGrpc, kMaxRunning, options.request_step_time));
  const StreamShape shape{.num_prompt_tokens = options.num_prompt_tokens,
                          .num_output_tokens = 1,
                          .vocab_size = model.vocab_size,
                          .as_text = as_text};
  uint32_t num_opened = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      OpenAtRate(setup, shape, options.requests_per_second, kSettling, num_opened));
  const size_t num_settling = setup.record().first_token_seconds().size();
  absl::Status status;
  LOCKSTEP_ASSIGN_OR_RETURN(const Window window, Measure(setup, [&] {
                              status = OpenAtRate(setup, shape, options.requests_per_second,
                                                  options.window, num_opened);
                            }));
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_ERROR(setup.Await("the end of every request", [&](const LoadCounts& now) {
    return now.num_ended == num_opened;
  }));
  LOCKSTEP_RETURN_IF_ERROR(CheckTokens(setup, num_opened));
  std::vector<double> added_ms = setup.record().first_token_seconds();
  added_ms.erase(added_ms.begin(), added_ms.begin() + static_cast<ptrdiff_t>(num_settling));
  for (double& one : added_ms) {
    one = (one - absl::ToDoubleSeconds(options.request_step_time)) * 1e3;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const double num_prompt_tokens,
                            setup.router->ReadMetric("lockstep_router_prompt_tokens_total"));
  const auto num_requests = static_cast<double>(window.seen.num_begun);
  Print(name,
        fmt::format("\"requests_per_s\": {:.0f}, \"prompt_tokens\": {:.0f}, "
                    "\"cpu_us_per_request\": {:.1f}, \"cores\": {:.3f}, "
                    "\"added_ttft_ms_p50\": {:.3f}, \"added_ttft_ms_p99\": {:.3f}, "
                    "\"sleeps_per_request\": {:.2f}, \"us_by_thread\": {{{}}}",
                    num_requests / window.seconds, num_prompt_tokens / num_opened,
                    window.used.seconds * 1e6 / num_requests, window.used.seconds / window.seconds,
                    Quantile(added_ms, 0.5), Quantile(added_ms, 0.99),
                    static_cast<double>(window.used.num_switches) / num_requests,
                    ThreadsPer(window.used, num_requests)));
  return absl::OkStatus();
}

// --- what an open stream holds ---

absl::Status RunIdle(const CostOptions& options, const std::string& name, Api api) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(options.model));
  LOCKSTEP_ASSIGN_OR_RETURN(const Setup setup,
                            MakeSetup(options, api, options.num_streams, absl::Milliseconds(5)));
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t before, setup.router->ReadResidentBytes());
  const uint32_t num_tokens = model.max_context_tokens - kStreamPromptTokens;
  LOCKSTEP_RETURN_IF_ERROR(OpenAll(setup, model, options.num_streams, num_tokens));
  setup.worker.Signal(SIGUSR1);  // no step ends from now on
  PaceFor(kSettling);
  const LoadCounts counts = setup.record().counts();
  if (counts.num_ended > 0) return Internal("streams ended before they were measured");
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t after, setup.router->ReadResidentBytes());
  Print(name, fmt::format("\"streams\": {}, \"kib_per_stream\": {:.1f}, \"resident_mib\": {:.1f}",
                          options.num_streams,
                          (static_cast<double>(after) - static_cast<double>(before)) /
                              (1024.0 * options.num_streams),
                          static_cast<double>(after) / (1 << 20)));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CostCases() {
  return {"grpc-stream", "sse-stream", "requests", "requests-text", "grpc-idle", "sse-idle"};
}

absl::Status RunCostCase(const CostOptions& options, const std::string& name) {
  if (name == "grpc-stream") return RunStreams(options, name, Api::kGrpc);
  if (name == "sse-stream") return RunStreams(options, name, Api::kSse);
  if (name == "requests") return RunRequests(options, name, /*as_text=*/false);
  if (name == "requests-text") return RunRequests(options, name, /*as_text=*/true);
  if (name == "grpc-idle") return RunIdle(options, name, Api::kGrpc);
  if (name == "sse-idle") return RunIdle(options, name, Api::kSse);
  return InvalidArgument("case: expected one of {}, got {}", fmt::join(CostCases(), ", "), name);
}

}  // namespace lockstep::bench
