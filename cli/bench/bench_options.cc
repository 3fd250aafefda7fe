#include "cli/bench/bench_options.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include "cli/common/api_key.h"
#include "cli/common/options.h"
#include "cli/common/server_url.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kApis[] = {"completions", "chat", "grpc"};
constexpr double kDefaultSeconds = 30.0;
constexpr double kDefaultStreams = 16.0;
constexpr double kMaxStreams = 1 << 20;
constexpr double kMaxRate = 1e6;
constexpr double kMaxSeconds = 7 * 24 * 3600.0;

void ReadTarget(Arguments& arguments, const std::string& option, const std::string& url,
                BenchOptions& options) {
  const absl::StatusOr<ServerUrl> server = ParseServerUrl(url);
  if (!server.ok()) return arguments.AddError("--" + option + ": " + Message(server.status()));
  if (server->tls) {
    return arguments.AddError("--" + option + ": loads are sent without TLS; name a plain address");
  }
  options.targets.push_back({.url = url, .address = server->address});
}

void ReadLength(Arguments& arguments, std::string_view option, LengthRange& range) {
  std::optional<std::string> text;
  arguments.Read(option, text);
  if (!text.has_value()) return;
  const absl::StatusOr<LengthRange> parsed = ParseLengthRange(*text);
  if (parsed.ok()) {
    range = *parsed;
  } else {
    arguments.AddError(fmt::format("--{}: {}", option, Message(parsed.status())));
  }
}

void ReadCount(Arguments& arguments, std::string_view option, uint64_t min, uint64_t max,
               uint32_t& value) {
  std::optional<uint64_t> read;
  arguments.ReadInteger(option, min, max, read);
  if (read.has_value()) value = static_cast<uint32_t>(*read);
}

void ReadData(Arguments& arguments, BenchOptions& options) {
  std::string data = "random";
  arguments.Read("data", data);
  const std::string kind = data.substr(0, data.find(':'));
  if (data.size() > kind.size()) options.data_name = data.substr(kind.size() + 1);
  if (kind == "random" && options.data_name.empty()) {
    options.data = BenchData::kRandom;
  } else if (kind == "sharegpt" && !options.data_name.empty()) {
    options.data = BenchData::kShareGpt;
  } else if (kind == "trace" && !options.data_name.empty()) {
    options.data = BenchData::kTrace;
  } else if (kind == "scenario" && !options.data_name.empty()) {
    options.data = BenchData::kScenario;
    const absl::StatusOr<BenchScenario> found = FindBenchScenario(options.data_name);
    if (!found.ok()) arguments.AddError("--data: " + Message(found.status()));
  } else {
    arguments.AddError(
        "--data: expected random, sharegpt:FILE, trace:FILE or scenario:NAME, got \"" + data +
        "\"");
  }
}

// Numbers above 0, separated by commas.
void ReadLevels(Arguments& arguments, const std::string& option, double max,
                std::vector<double>& levels) {
  std::optional<std::string> text;
  arguments.Read(option, text);
  if (!text.has_value()) return;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(*text, ','))) {
    double level = 0.0;
    if (!absl::SimpleAtod(part, &level) || !(level > 0) || level > max) {
      return arguments.AddError(fmt::format(
          "--{}: expected numbers from above 0 to {:g}, as 1,2,4; got \"{}\"", option, max, *text));
    }
    levels.push_back(level);
  }
}

void ReadLoop(Arguments& arguments, BenchOptions& options) {
  std::vector<double> streams;
  std::vector<double> rates;
  std::vector<double> scales;
  ReadLevels(arguments, "streams", kMaxStreams, streams);
  ReadLevels(arguments, "rates", kMaxRate, rates);
  ReadLevels(arguments, "time-scales", 1e6, scales);
  if ((streams.empty() ? 0 : 1) + (rates.empty() ? 0 : 1) + (scales.empty() ? 0 : 1) > 1) {
    return arguments.AddError("only one of --streams, --rates and --time-scales");
  }
  if (!scales.empty() && options.data != BenchData::kTrace) {
    return arguments.AddError("--time-scales needs --data trace:FILE");
  }
  if (options.data == BenchData::kScenario && (!streams.empty() || !rates.empty())) {
    return arguments.AddError("a scenario sends all its requests at once: no --streams or --rates");
  }
  if (!rates.empty()) {
    options.loop = BenchLoop::kOpen;
    options.levels = rates;
  } else if (!streams.empty()) {
    options.levels = streams;
  } else if (options.data == BenchData::kTrace) {
    options.loop = BenchLoop::kTrace;
    options.levels = scales.empty() ? std::vector<double>{1.0} : scales;
  } else if (options.data == BenchData::kScenario) {
    const absl::StatusOr<BenchScenario> scenario = FindBenchScenario(options.data_name);
    if (scenario.ok()) options.levels = {static_cast<double>(scenario->prompt_lengths.size())};
  } else {
    options.levels = {kDefaultStreams};
  }
}

void ReadBounds(Arguments& arguments, BenchOptions& options) {
  arguments.ReadInteger("requests", 1, UINT64_MAX, options.max_requests);
  arguments.ReadSeconds("duration", 0.001, kMaxSeconds, options.max_seconds);
  std::optional<double> warm_up;
  arguments.ReadSeconds("warm-up", 0, kMaxSeconds, warm_up);
  options.warm_up_seconds = warm_up.value_or(0.0);
  if (options.data == BenchData::kScenario && !options.max_requests && !options.levels.empty()) {
    options.max_requests = static_cast<uint64_t>(options.levels[0]);
  }
  if (!options.max_requests && !options.max_seconds && options.loop != BenchLoop::kTrace) {
    options.max_seconds = kDefaultSeconds;
  }
}

void ReadSampling(Arguments& arguments, SamplingNumbers& sampling) {
  std::optional<double> temperature;
  std::optional<double> top_p;
  arguments.ReadNumber("temperature", 0, 100, temperature);
  arguments.ReadNumber("top-p", 0, 1, top_p);
  ReadCount(arguments, "top-k", 1, 10'000'000, sampling.top_k);
  sampling.temperature = static_cast<float>(temperature.value_or(0.0));
  sampling.top_p = static_cast<float>(top_p.value_or(1.0));
  if (sampling.temperature == 0 && (top_p || sampling.top_k > 0)) {
    arguments.AddError("--top-p and --top-k need a --temperature above 0");
  }
  if (const absl::Status status = CheckSamplingNumbers(sampling, "--"); !status.ok()) {
    arguments.AddError(absl::StrReplaceAll(Message(status), {{"_", "-"}}));
  }
}

// Reads the servers and their API keys.
void ReadTargets(Arguments& arguments, BenchOptions& options) {
  std::string url = "127.0.0.1:8000";
  arguments.Read("url", url);
  ReadTarget(arguments, "url", url, options);
  std::optional<std::string> other;
  arguments.Read("vs", other);
  if (other.has_value()) ReadTarget(arguments, "vs", *other, options);
  std::string api = "completions";
  arguments.ReadChoice("api", kApis, api);
  options.api = api == "chat"   ? BenchApi::kChat
                : api == "grpc" ? BenchApi::kGrpc
                                : BenchApi::kCompletions;
  arguments.Read("model", options.model);
  std::string key;
  arguments.Read("api-key", key);
  absl::StatusOr<std::string> read_key = ReadApiKey(key);
  if (read_key.ok()) options.api_key = *std::move(read_key);
  if (!read_key.ok()) arguments.AddError("--api-key: " + Message(read_key.status()));
}

void ReadRandomData(Arguments& arguments, RandomWorkload& random) {
  ReadLength(arguments, "prompt", random.prompt);
  ReadLength(arguments, "output", random.output);
  ReadCount(arguments, "prefix-tokens", 0, 10'000'000, random.prefix_tokens);
  ReadCount(arguments, "prefixes", 1, 1'000'000, random.num_prefixes);
  ReadCount(arguments, "turns", 1, 1000, random.turns);
  ReadCount(arguments, "vocab", 4, 10'000'000, random.vocab_size);
}

// How often and how long is measured, and what counts as good.
void ReadMeasurement(Arguments& arguments, BenchOptions& options) {
  std::optional<double> burstiness;
  arguments.ReadNumber("burstiness", 0.001, 1000, burstiness);
  options.burstiness = burstiness.value_or(1.0);
  uint32_t repeats = 1;
  ReadCount(arguments, "repeats", 1, 1000, repeats);
  options.repeats = static_cast<int>(repeats);
  std::optional<std::string> goodput;
  arguments.Read("goodput", goodput);
  if (goodput.has_value()) {
    const absl::StatusOr<GoodputBounds> bounds = ParseGoodputBounds(*goodput);
    if (bounds.ok()) options.bounds = *bounds;
    if (!bounds.ok()) arguments.AddError("--goodput: " + Message(bounds.status()));
  }
  std::optional<double> threshold;
  arguments.ReadNumber("threshold", 0, 100, threshold);
  if (threshold.has_value()) options.threshold = *threshold / 100;
  std::optional<uint64_t> seed;
  arguments.ReadInteger("seed", 0, UINT64_MAX, seed);
  options.seed = seed.value_or(1);
  std::optional<double> timeout;
  arguments.ReadSeconds("timeout", 0.001, kMaxSeconds, timeout);
  options.timeout_seconds = timeout.value_or(options.timeout_seconds);
  ReadCount(arguments, "threads", 1, 64, options.num_threads);
}

}  // namespace

absl::StatusOr<GoodputBounds> ParseGoodputBounds(std::string_view text) {
  GoodputBounds bounds;
  const auto wrong = [&] {
    return InvalidArgument("expected bounds as ttft:200ms,tpot:25ms,e2e:3s, got \"{}\"", text);
  };
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    const size_t colon = part.find(':');
    absl::Duration bound;
    if (colon == std::string::npos || !absl::ParseDuration(part.substr(colon + 1), &bound) ||
        bound <= absl::ZeroDuration()) {
      return wrong();
    }
    const std::string name = part.substr(0, colon);
    std::optional<double>* const to = name == "ttft"   ? &bounds.ttft_ms
                                      : name == "tpot" ? &bounds.tpot_ms
                                      : name == "e2e"  ? &bounds.e2e_ms
                                                       : nullptr;
    if (to == nullptr) return wrong();
    *to = absl::ToDoubleMilliseconds(bound);
  }
  return bounds;
}

std::string CommandText(const Verb& verb, std::span<const std::string> words) {
  std::string text(verb.name);
  bool is_key = false;
  for (const std::string& word : words) {
    // A flag may be spelled with underscores.
    const std::string name = absl::StrReplaceAll(word.substr(0, word.find('=')), {{"_", "-"}});
    const bool has_key = name == "--api-key" && word.size() > name.size();
    text += is_key ? " ..." : has_key ? " --api-key=..." : " " + word;
    is_key = name == "--api-key" && !has_key;
  }
  return text;
}

absl::StatusOr<BenchOptions> ParseBenchOptions(const Verb& verb,
                                               std::span<const std::string> words) {
  Arguments arguments = Arguments::Parse(verb.options, words);
  arguments.ExpectPositionals({});
  arguments.ExpectNoRest();
  BenchOptions options;
  ReadTargets(arguments, options);
  ReadSampling(arguments, options.sampling);
  ReadData(arguments, options);
  ReadRandomData(arguments, options.random);
  ReadLoop(arguments, options);
  ReadBounds(arguments, options);
  ReadMeasurement(arguments, options);
  arguments.Read("json", options.json_path);
  arguments.Read("markdown", options.markdown_path);
  arguments.Read("plots", options.plots_folder);
  if (options.api == BenchApi::kChat &&
      (options.data == BenchData::kRandom || options.data == BenchData::kScenario ||
       options.data == BenchData::kTrace)) {
    arguments.AddError("--api chat needs conversations: --data sharegpt:FILE");
  }
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return options;
}

}  // namespace lockstep::cli
