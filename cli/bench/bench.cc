#include "cli/bench/bench.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/bench/bench_options.h"
#include "cli/bench/load/grpc_transport.h"
#include "cli/bench/load/http_transport.h"
#include "cli/bench/load/load.h"
#include "cli/bench/plan/arrivals.h"
#include "cli/bench/results/compare.h"
#include "cli/bench/results/plot.h"
#include "cli/bench/results/run_result.h"
#include "cli/common/errors.h"
#include "cli/common/http_get.h"
#include "cli/common/interrupt_signal.h"
#include "cli/common/options.h"
#include "common/runtime/descriptor_limit.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "common/version.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(10);
// Descriptors that the program needs in addition to one for each stream.
constexpr uint64_t kOtherDescriptors = 64;
// Distance between the seeds of levels and repeats.
constexpr uint64_t kSeedStride = 1'000'003;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return NotFound("{}: cannot be read", path);
  return std::move(text).str();
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? absl::OkStatus() : FailedPrecondition("{}: cannot be written", path);
}

// Call before the loads. Otherwise a result that cannot be kept would be lost at their end.
absl::Status CheckWritable(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::binary | std::ios::app)) {
    return absl::OkStatus();
  }
  return FailedPrecondition("{}: cannot be written", path);
}

// What the requests of all loads are made from.
struct BenchInput {
  std::vector<BenchRequest> conversations;
  std::vector<TracedRequest> trace;
  std::optional<BenchScenario> scenario;
};

absl::StatusOr<BenchInput> ReadInput(const BenchOptions& options) {
  BenchInput input;
  if (options.data == BenchData::kScenario) {
    LOCKSTEP_ASSIGN_OR_RETURN(input.scenario, FindBenchScenario(options.data_name));
  } else if (options.data == BenchData::kShareGpt) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.data_name));
    absl::StatusOr<std::vector<BenchRequest>> requests = ParseShareGpt(text);
    if (!requests.ok()) return Annotate(requests.status(), options.data_name);
    input.conversations = *std::move(requests);
  } else if (options.data == BenchData::kTrace) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.data_name));
    constexpr uint32_t kBlockTokens = 16;
    absl::StatusOr<std::vector<TracedRequest>> trace =
        ParseTrace(text, kBlockTokens, options.random.vocab_size);
    if (!trace.ok()) return Annotate(trace.status(), options.data_name);
    input.trace = *std::move(trace);
  }
  return input;
}

// The server's model. Also shows that the server answers.
absl::StatusOr<std::string> FirstModel(const BenchTarget& target, const std::string& api_key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HttpReply reply,
                            HttpGet(target.address, "/v1/models", kStartTimeout, api_key));
  const auto models = nlohmann::json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !models.is_object() || !models.contains("data") ||
      !models["data"].is_array() || models["data"].empty() || !models["data"][0].is_object() ||
      !models["data"][0].value("id", nlohmann::json()).is_string()) {
    return FailedPrecondition("{}/v1/models names no model (status {}): --model names one",
                              target.url, reply.status);
  }
  return models["data"][0]["id"].get<std::string>();
}

std::string LevelName(const BenchOptions& options, double level) {
  switch (options.loop) {
    case BenchLoop::kClosed:
      return fmt::format("{:g} streams", level);
    case BenchLoop::kOpen:
      return fmt::format("{:g} requests/s", level);
    case BenchLoop::kTrace:
      break;
  }
  return fmt::format("trace x {:g}", level);
}

LoadPlan MakePlan(const BenchOptions& options, const BenchInput& input, double level,
                  uint64_t seed) {
  LoadPlan plan;
  plan.warm_up_seconds = options.warm_up_seconds;
  if (options.max_requests) plan.max_requests = *options.max_requests;
  if (options.max_seconds) plan.max_seconds = *options.max_seconds;
  if (options.loop == BenchLoop::kClosed) {
    plan.streams = static_cast<uint32_t>(level);
  } else if (options.loop == BenchLoop::kOpen) {
    plan.arrival = [arrivals = std::make_shared<GammaArrivals>(level, options.burstiness, seed)](
                       uint64_t) -> std::optional<double> { return arrivals->Next(); };
  } else {
    plan.arrival = [&input, level](uint64_t i) -> std::optional<double> {
      if (i >= input.trace.size()) return std::nullopt;
      return input.trace[i].at_seconds * level;
    };
  }
  plan.request = [&options, &input, seed](uint64_t i) -> BenchRequest {
    switch (options.data) {
      case BenchData::kRandom:
        return options.random.Request(seed, i);
      case BenchData::kScenario:
        return input.scenario->Request(seed, i, options.random.vocab_size);
      case BenchData::kShareGpt:
        return input.conversations[(i + seed) % input.conversations.size()];
      case BenchData::kTrace:
        break;
    }
    return input.trace[i % input.trace.size()].request;
  };
  return plan;
}

class Bench {
 public:
  explicit Bench(BenchOptions options) : options_(std::move(options)) {}

  absl::Status Run(const Verb& verb, std::span<const std::string> words) {
    LOCKSTEP_ASSIGN_OR_RETURN(input_, ReadInput(options_));
    LOCKSTEP_RETURN_IF_ERROR(CheckDescriptors());
    for (const BenchTarget& target : options_.targets)
      LOCKSTEP_RETURN_IF_ERROR(AskForModel(target));
    result_.date = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone());
    result_.version = std::string(Version());
    result_.command = CommandText(verb, words);
    for (size_t level = 0; level < options_.levels.size() && !interrupted_; ++level) {
      for (int repeat = 0; repeat < options_.repeats && !interrupted_; ++repeat) {
        for (size_t target = 0; target < options_.targets.size() && !interrupted_; ++target) {
          LOCKSTEP_RETURN_IF_ERROR(RunOnce(target, level, repeat));
        }
      }
    }
    return Report();
  }

 private:
  absl::Status CheckDescriptors() const {
    const uint64_t limit = RaiseDescriptorLimit();
    const double streams = *std::ranges::max_element(options_.levels);
    if (options_.loop == BenchLoop::kClosed && options_.api != BenchApi::kGrpc &&
        streams + kOtherDescriptors > static_cast<double>(limit)) {
      return ResourceExhausted(
          "{:g} streams need as many open files, but this process may have {} (ulimit -n)", streams,
          limit);
    }
    return absl::OkStatus();
  }

  absl::Status AskForModel(const BenchTarget& target) {
    if (!options_.model.empty() || options_.api == BenchApi::kGrpc) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(options_.model, FirstModel(target, options_.api_key));
    return absl::OkStatus();
  }

  absl::Status RunOnce(size_t target_index, size_t level_index, int repeat) {
    const BenchTarget& target = options_.targets[target_index];
    const double level = options_.levels[level_index];
    // Both targets get the same requests; no two loads of a target share prompts.
    const uint64_t seed =
        options_.seed + kSeedStride * (level_index * static_cast<uint64_t>(options_.repeats) +
                                       static_cast<uint64_t>(repeat));
    const LoadClock clock;
    const TransportOptions transport_options = {.model = options_.model,
                                                .api_key = options_.api_key,
                                                .sampling = options_.sampling,
                                                .chat = options_.api == BenchApi::kChat,
                                                .timeout_seconds = options_.timeout_seconds,
                                                .num_threads = options_.num_threads};
    const std::unique_ptr<Transport> transport =
        options_.api == BenchApi::kGrpc
            ? MakeGrpcTransport(FormatAddress(target.address), transport_options, clock)
            : MakeHttpTransport(target.address, transport_options, clock);
    RunResult run = {.target = target.url,
                     .load = LevelName(options_, level),
                     .level = level,
                     .repeat = repeat,
                     .summary = {}};
    const LoadPlan plan = MakePlan(options_, input_, level, seed);
    const LoadResult load = RunLoad(*transport, clock, plan, [&](const LoadProgress& progress) {
      ShowProgress(run, progress);
      return !interrupt_.Take();
    });
    interrupted_ = load.interrupted;
    if (shows_progress_) std::fputs("\r\x1b[K", stderr);
    run.summary = Summarize(load.records, load.window, options_.bounds, load.cost);
    LOCKSTEP_RETURN_IF_ERROR(PlotRun(run, load.records));
    result_.runs.push_back(std::move(run));
    return absl::OkStatus();
  }

  void ShowProgress(const RunResult& run, const LoadProgress& progress) const {
    if (!shows_progress_) return;
    std::fprintf(stderr,
                 "\r\x1b[K%s, %s: %.0f s, %llu sent, %llu ended, %llu failed, %.0f tokens/s",
                 run.target.c_str(), run.load.c_str(), progress.seconds,
                 static_cast<unsigned long long>(progress.sent),
                 static_cast<unsigned long long>(progress.ended),
                 static_cast<unsigned long long>(progress.failed),
                 static_cast<double>(progress.output_tokens) / std::max(progress.seconds, 1e-9));
  }

  absl::Status PlotRun(const RunResult& run, std::span<const RequestRecord> records) const {
    if (options_.plots_folder.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(options_.plots_folder, error);
    const std::string title = run.target + ", " + run.load;
    const std::string stem = fmt::format("{}/run{}", options_.plots_folder, result_.runs.size());
    LOCKSTEP_RETURN_IF_ERROR(
        WriteFile(stem + "-latency.svg", ToSvg(LatencyDistributions(title, records))));
    return WriteFile(stem + "-between-pieces.svg", ToSvg(ItlOverTime(title, records)));
  }

  absl::Status Report() const {
    std::string text = ToMarkdown(result_);
    if (options_.targets.size() == 2) {
      std::vector<RunResult> sides[2];
      for (const RunResult& run : result_.runs) {
        sides[run.target == options_.targets[0].url ? 0 : 1].push_back(run);
      }
      text += fmt::format("\nBefore: {}. After: {}.\n\n{}", options_.targets[0].url,
                          options_.targets[1].url,
                          ToMarkdown(Compare(sides[0], sides[1], options_.threshold)));
    }
    // It quotes errors of servers.
    text = WithoutControls(text);
    std::fputs(text.c_str(), stdout);
    if (!options_.json_path.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(WriteFile(options_.json_path, ToJson(result_)));
    }
    if (!options_.markdown_path.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(WriteFile(options_.markdown_path, text));
    }
    if (!options_.plots_folder.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(WriteFile(options_.plots_folder + "/latency-against-load.svg",
                                         ToSvg(LatencyAgainstLoad(result_.runs))));
    }
    for (const RunResult& run : result_.runs) {
      if (run.summary.completed > 0) return absl::OkStatus();
    }
    return Unavailable("no request was answered");
  }

  BenchOptions options_;
  BenchInput input_;
  BenchResult result_;
  InterruptSignal interrupt_;
  bool interrupted_ = false;
  const bool shows_progress_ = isatty(STDERR_FILENO) != 0;
};

int RunCompare(const Verb& verb, std::span<const std::string> words) {
  Arguments arguments = Arguments::Parse(verb.options, words);
  constexpr std::string_view kNames[] = {"BEFORE.json", "AFTER.json"};
  arguments.ExpectPositionals(kNames);
  arguments.ExpectNoRest();
  std::optional<double> threshold;
  arguments.ReadNumber("threshold", 0, 100, threshold);
  if (const absl::Status status = arguments.Finish(); !status.ok()) {
    return PrintUsageError(verb.name, status);
  }
  std::vector<BenchResult> results;
  for (const std::string& path : arguments.positionals()) {
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return PrintFailure(verb.name, text.status());
    absl::StatusOr<BenchResult> result = ParseBenchResult(*text);
    if (!result.ok()) return PrintFailure(verb.name, Annotate(result.status(), path));
    results.push_back(*std::move(result));
  }
  const std::vector<Comparison> comparisons =
      Compare(results[0].runs, results[1].runs, threshold.value_or(5.0) / 100);
  if (comparisons.empty()) {
    return PrintFailure(verb.name, FailedPrecondition("the two results have no load in common"));
  }
  std::fputs(WithoutControls(ToMarkdown(comparisons)).c_str(), stdout);
  const bool any_worse = std::ranges::any_of(
      comparisons, [](const Comparison& one) { return one.verdict == Verdict::kWorse; });
  return any_worse ? 1 : 0;
}

}  // namespace

int RunBench(const Verb& verb, std::span<const std::string> words) {
  if (!words.empty() && words[0] == "compare") return RunCompare(verb, words.subspan(1));
  absl::StatusOr<BenchOptions> options = ParseBenchOptions(verb, words);
  if (!options.ok()) return PrintUsageError(verb.name, options.status());
  for (const std::string& path : {options->json_path, options->markdown_path}) {
    const absl::Status writable = CheckWritable(path);
    if (!writable.ok()) return PrintFailure(verb.name, writable);
  }
  const absl::Status status = Bench(*std::move(options)).Run(verb, words);
  return status.ok() ? 0 : PrintFailure(verb.name, status);
}

}  // namespace lockstep::cli
