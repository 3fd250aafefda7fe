// lockstep-engine-benchmark: scheduler and worker in one process, on one model, without sockets.
//
//   decode:BxC    milliseconds per step at batch B from context C: the time of 144 output tokens
//   less
//                 that of 16, over 128
//   prefill:BxC   milliseconds until B prompts of C tokens have their first token
//   beside:BxC+P  what prompts of P tokens, always two of them, do to B sequences that decode from
//                 context C: milliseconds between two tokens of a sequence, prompt tokens a second
//   closed:BxP+O  B streams in a closed loop, prompts of P and outputs of O tokens, both +- 50 %:
//                 tokens a second, and what steps of decodes alone and mixed ones took
//   draft:BxC:D:A milliseconds per token at batch B from context C, with up to D drafts in a row
//                 that are right with probability A; beside it plain decoding, and the speed-up.
//                 Where drafts come from is no matter: they are tokens of plain decoding, or others
//   scenarios     seconds of each of the seven workloads (cli/bench/plan/workload.h), or the name
//                 of one
//
// Prompts are random, temperature 0, the prefix cache is bypassed. One JSON object a line. Of the
// last repeat it has quantiles of the device's idle time before a step, the median of a step with
// that idle time (step_ms_p50), steps with prompts included, and a hash of all tokens.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/serving/draft_benchmark.h"
#include "bench/serving/engine.h"
#include "cli/bench/plan/workload.h"
#include "common/check.h"
#include "common/hash.h"
#include "common/status.h"
#include "tests/rigs/quantile.h"
#include "worker/backend.h"
#include "worker/worker_config.h"

ABSL_FLAG(std::string, model, "", "GGUF file, or folder with config.json");
ABSL_FLAG(std::string, device, "auto", "cpu, cuda or auto");
ABSL_FLAG(std::string, cuda_device, "", "as of lockstep-worker");
ABSL_FLAG(uint32_t, tensor_parallel, 1, "as of lockstep-worker");
ABSL_FLAG(std::string, load_format, "random", "auto or random");
ABSL_FLAG(std::string, weights, "auto", "as of lockstep-worker");
ABSL_FLAG(std::string, activations, "bf16", "as of lockstep-worker");
ABSL_FLAG(std::string, random_codes, "",
          "random weights are codes, such as int4-g128, fp8-g128, int8-g32, q4_k, q6_k "
          "(worker/model/weights/random_codes.h)");
ABSL_FLAG(std::vector<std::string>, cases, std::vector<std::string>({"decode:1x512"}), "see above");
ABSL_FLAG(int, repeats, 3, "of every case, after one warm-up");
ABSL_FLAG(uint64_t, kv_cache_tokens, 0, "as of lockstep-worker");
ABSL_FLAG(std::string, kv_dtype, "bf16", "as of lockstep-worker");
ABSL_FLAG(uint32_t, max_step_tokens, lockstep::worker::kGpuDefaults.max_step_tokens,
          "as of lockstep-worker");
ABSL_FLAG(uint32_t, max_slots, lockstep::worker::kGpuDefaults.max_slots,
          "as of lockstep-worker; its --max_logits_rows, too");
ABSL_FLAG(int, max_fused_rows, -1,
          "decode steps of up to so many rows run all layers in one kernel, where there is one for "
          "the shape; 0: none; below 0: where that is faster");
ABSL_FLAG(bool, fuse_activation, true,
          "compute the MLP's activation in the kernel of its product, where that is faster");
ABSL_FLAG(bool, fuse_exchange, true,
          "ranks exchange columns of few rows in the kernel of the norm that needs them");
ABSL_FLAG(uint32_t, decode_iterations, 1, "decode steps in one message");
ABSL_FLAG(uint32_t, steps_in_flight, 2, "steps sent ahead");
ABSL_FLAG(absl::Duration, target_step_time, lockstep::router::kServingStepTime,
          "as of lockstep-router");
ABSL_FLAG(absl::Duration, beside_time, absl::Seconds(5),
          "that a case `beside` or `closed` measures");
ABSL_FLAG(absl::Duration, warm_up, absl::Seconds(3),
          "of a case `closed`; 0: its beginning counts, when all streams come at once");
ABSL_FLAG(std::string, steps_file, "",
          "where a case `closed` writes its steps: prefill tokens, decode tokens, ms, idle ms");

namespace lockstep::bench {
namespace {

class Benchmark {
 public:
  Benchmark(worker::StepRunner& runner, const worker::ForwardModelInfo& info)
      : runner_(runner),
        info_(info),
        options_{.max_steps_in_flight = absl::GetFlag(FLAGS_steps_in_flight),
                 .max_decode_iterations = absl::GetFlag(FLAGS_decode_iterations),
                 .max_running_sequences = runner.bounds().max_slots,
                 .target_step_time = absl::GetFlag(FLAGS_target_step_time)} {}

  void RunCase(const std::string& name) {
    if (const std::optional<DraftCase> drafts = ParseDraftCase(name)) {
      MeasureDrafts(runner_, info_, options_, *drafts, absl::GetFlag(FLAGS_repeats));
      return;
    }
    Engine engine(runner_, info_, options_);
    engine_ = &engine;
    RunPlainCase(name);
    engine_ = nullptr;
  }

 private:
  void RunPlainCase(const std::string& name) {
    bool is_scenario = false;
    for (const cli::BenchScenario& scenario : cli::AllBenchScenarios()) {
      if (name != "scenarios" && name != scenario.name) continue;
      is_scenario = true;
      Measure(std::string(scenario.name), "s",
              [&] { return Seconds(scenario.prompt_lengths, scenario.num_output_tokens); });
    }
    if (is_scenario) return;
    const std::vector<std::string> parts = absl::StrSplit(name, absl::ByAnyChar(":x+"));
    uint32_t batch = 0;
    uint32_t context = 0;
    uint32_t fourth = 0;
    const bool has_fourth = parts.size() == 4 && (parts[0] == "beside" || parts[0] == "closed");
    const bool is_known =
        has_fourth || (parts.size() == 3 && (parts[0] == "decode" || parts[0] == "prefill"));
    LOCKSTEP_CHECK(
        is_known && absl::SimpleAtoi(parts[1], &batch) && absl::SimpleAtoi(parts[2], &context) &&
            (!has_fourth || absl::SimpleAtoi(parts[3], &fourth)),
        "case '{}': expected decode:BxC, prefill:BxC, beside:BxC+P, closed:BxP+O, draft:BxC:D:A, "
        "scenarios or the name of one",
        name);
    if (parts[0] == "beside") return MeasureBeside(name, batch, context, fourth);
    if (parts[0] == "closed") return MeasureClosed(name, batch, context, fourth);
    const std::vector<uint32_t> lengths(batch, context);
    if (parts[0] == "prefill") {
      Measure(name, "ms", [&] { return 1e3 * Seconds(lengths, 1); });
      return;
    }
    Measure(name, "ms/step", [&] {
      const double less = Seconds(lengths, 16);
      return (Seconds(lengths, 144) - less) / 128 * 1e3;
    });
  }

  Work MakeWork(uint32_t prompt_length, uint32_t num_output_tokens) {
    std::uniform_int_distribution<TokenId> token(0, info_.vocab_size - 1);
    Work work = {.prompt = {}, .num_output_tokens = num_output_tokens};
    for (uint32_t i = 0; i < prompt_length; ++i) work.prompt.push_back(token(random_));
    return work;
  }

  double Seconds(const std::vector<uint32_t>& prompt_lengths, uint32_t num_output_tokens) {
    std::vector<Work> work;
    for (const uint32_t length : prompt_lengths) {
      work.push_back(MakeWork(length, num_output_tokens));
    }
    return engine_->Run(work);
  }

  void MeasureBeside(const std::string& name, uint32_t batch, uint32_t context, uint32_t prompt) {
    constexpr uint32_t kManyTokens = 8000;
    std::vector<Work> streams;
    for (uint32_t i = 0; i < batch; ++i) streams.push_back(MakeWork(context, kManyTokens));
    const auto result = engine_->Disturb(
        streams, [&] { return MakeWork(prompt, 1); }, absl::GetFlag(FLAGS_beside_time));
    std::printf(
        "{\"case\": \"%s\", \"unit\": \"ms\", \"target_ms\": %g, \"median\": %.3f, \"p99\": %.3f, "
        "\"mean\": %.3f, \"prompt_tokens_per_s\": %.0f, \"gaps\": %zu}\n",
        name.c_str(), absl::ToDoubleMilliseconds(absl::GetFlag(FLAGS_target_step_time)),
        Quantile(result.gap_ms, 0.5), Quantile(result.gap_ms, 0.99), Mean(result.gap_ms),
        result.prompt_tokens_per_s, result.gap_ms.size());
    std::fflush(stdout);
  }

  void MeasureClosed(const std::string& name, uint32_t num_streams, uint32_t prompt,
                     uint32_t output) {
    const auto about = [&](uint32_t mean) {
      return std::uniform_int_distribution<uint32_t>(mean - mean / 2, mean + mean / 2)(random_);
    };
    const Engine::Saturation result = engine_->Saturate(
        num_streams, [&] { return MakeWork(about(prompt), about(output)); },
        absl::GetFlag(FLAGS_warm_up), absl::GetFlag(FLAGS_beside_time));
    std::printf(
        "{\"case\": \"%s\", \"target_ms\": %g, \"output_tokens_per_s\": %.0f, "
        "\"prompt_tokens_per_s\": %.0f, \"first_ms_p50\": %.1f, \"first_ms_p99\": %.1f, "
        "\"gap_ms_p50\": %.2f, \"gap_ms_mean\": %.2f, \"gap_ms_p99\": %.2f}\n",
        name.c_str(), absl::ToDoubleMilliseconds(absl::GetFlag(FLAGS_target_step_time)),
        result.output_tokens_per_s, result.prompt_tokens_per_s, Quantile(result.first_ms, 0.5),
        Quantile(result.first_ms, 0.99), Quantile(result.gap_ms, 0.5), Mean(result.gap_ms),
        Quantile(result.gap_ms, 0.99));
    PrintSteps("decodes alone", result.steps,
               [](const StepCost& step) { return step.num_prefill_tokens == 0; });
    PrintSteps("up to 512 prompt tokens", result.steps, [](const StepCost& step) {
      return step.num_prefill_tokens > 0 && step.num_prefill_tokens <= 512;
    });
    PrintSteps("more prompt tokens", result.steps,
               [](const StepCost& step) { return step.num_prefill_tokens > 512; });
    WriteSteps(result.steps);
    std::fflush(stdout);
  }

  static double Mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) /
           static_cast<double>(std::max<size_t>(values.size(), 1));
  }

  template <typename Selects>
  static void PrintSteps(const char* kind, const std::vector<StepCost>& steps, Selects selects) {
    std::vector<double> prefill, decode, compute, idle;
    for (const StepCost& step : steps) {
      if (!selects(step)) continue;
      prefill.push_back(step.num_prefill_tokens);
      decode.push_back(step.num_decode_tokens);
      compute.push_back(step.compute_ms);
      idle.push_back(step.idle_ms);
    }
    std::printf(
        "  {\"steps\": \"%s\", \"count\": %zu, \"prompt_tokens\": %.0f, \"decode_tokens\": %.0f, "
        "\"ms\": %.3f, \"idle_ms\": %.4f}\n",
        kind, compute.size(), Mean(prefill), Mean(decode), Mean(compute), Mean(idle));
  }

  static void WriteSteps(const std::vector<StepCost>& steps) {
    const std::string path = absl::GetFlag(FLAGS_steps_file);
    if (path.empty()) return;
    std::FILE* const file = std::fopen(path.c_str(), "w");
    LOCKSTEP_CHECK(file != nullptr, "--steps_file {}: it can't be written", path);
    for (const StepCost& step : steps) {
      std::fprintf(file, "%u %u %.4f %.4f\n", step.num_prefill_tokens, step.num_decode_tokens,
                   step.compute_ms, step.idle_ms);
    }
    std::fclose(file);
  }

  // Of the tokens of the latest run: equal bits give equal hashes.
  uint64_t HashOfOutputs() const {
    uint64_t hash = 0;
    for (const std::vector<TokenId>& tokens : engine_->outputs()) {
      hash = Hash64(std::as_bytes(std::span(tokens)), hash);
    }
    return hash;
  }

  template <typename Function>
  void Measure(const std::string& name, const char* unit, Function measure) {
    measure();
    std::vector<double> values;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) values.push_back(measure());
    const StepTimes& times = engine_->last_times();
    std::string list;
    for (const double value : values) {
      list += fmt::format("{}{:.4f}", list.empty() ? "" : ", ", value);
    }
    std::printf(
        "{\"case\": \"%s\", \"unit\": \"%s\", \"median\": %.4f, \"values\": [%s], \"idle_us_p50\": "
        "%.1f, \"idle_us_p99\": %.1f, \"step_ms_p50\": %.4f, \"steps\": %llu, \"tokens_hash\": "
        "\"%016llx\"}\n",
        name.c_str(), unit, Quantile(values, 0.5), list.c_str(), Quantile(times.idle_us, 0.5),
        Quantile(times.idle_us, 0.99), Quantile(times.step_ms, 0.5),
        static_cast<unsigned long long>(times.num_steps),
        static_cast<unsigned long long>(HashOfOutputs()));
    std::fflush(stdout);
  }

  worker::StepRunner& runner_;
  const worker::ForwardModelInfo& info_;
  const Engine::Options options_;
  Engine* engine_ = nullptr;  // of the case at hand
  std::mt19937 random_{0};
};

absl::Status Run() {
  worker::WorkerConfig config;
  config.model = absl::GetFlag(FLAGS_model);
  config.device = absl::GetFlag(FLAGS_device);
  config.cuda_device = absl::GetFlag(FLAGS_cuda_device);
  config.tensor_parallel = absl::GetFlag(FLAGS_tensor_parallel);
  config.load_format = absl::GetFlag(FLAGS_load_format);
  config.weights = absl::GetFlag(FLAGS_weights);
  config.activations = absl::GetFlag(FLAGS_activations);
  config.random_codes = absl::GetFlag(FLAGS_random_codes);
  if (!config.random_codes.empty() && !worker::FindRandomCodes(config.random_codes)) {
    return InvalidArgument("--random_codes: there is no {}", config.random_codes);
  }
  config.kv_cache_tokens = absl::GetFlag(FLAGS_kv_cache_tokens);
  config.kv_dtype = absl::GetFlag(FLAGS_kv_dtype);
  config.max_step_tokens = absl::GetFlag(FLAGS_max_step_tokens);
  config.max_slots = absl::GetFlag(FLAGS_max_slots);
  config.max_logits_rows = config.max_slots;
  config.max_decode_iterations = std::max(1u, absl::GetFlag(FLAGS_decode_iterations));
  if (const int rows = absl::GetFlag(FLAGS_max_fused_rows); rows >= 0) config.max_fused_rows = rows;
  config.fuse_activation = absl::GetFlag(FLAGS_fuse_activation);
  config.fuse_exchange = absl::GetFlag(FLAGS_fuse_exchange);
  config.drafter = "ngram";
  config.scripted_drafts = true;
  config.max_draft_tokens = 0;
  for (const std::string& name : absl::GetFlag(FLAGS_cases)) {
    const std::optional<DraftCase> drafts = ParseDraftCase(name);
    if (drafts) config.max_draft_tokens = std::max(config.max_draft_tokens, drafts->max_drafts);
  }
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<worker::Backend> backend,
                            worker::OpenBackend(config, nullptr));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<worker::StepRunner> runner,
                            backend->MakeRunner(/*incarnation=*/1));
  const worker::ForwardModelInfo& info = backend->info();
  std::printf(
      "{\"model\": \"%s\", \"device\": \"%s\", \"tensor_parallel\": %u, \"kv_blocks\": %u, "
      "\"numerics_id\": \"%016llx\", \"weights\": \"%s\", \"weights_bytes\": %llu}\n",
      info.model_id.c_str(), info.device.c_str(), info.tensor_parallel,
      info.kv_groups.front().num_blocks, static_cast<unsigned long long>(info.numerics_id),
      info.weights_dtype.c_str(), static_cast<unsigned long long>(info.memory.weights_bytes));
  Benchmark benchmark(*runner, info);
  for (const std::string& name : absl::GetFlag(FLAGS_cases)) benchmark.RunCase(name);
  return absl::OkStatus();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = lockstep::bench::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-engine-benchmark: %s\n", lockstep::Message(status).c_str());
  return 1;
}
