#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "common/status.h"
#include "worker/cpu/load_model.h"

// Prefill and decode speed of a model on this machine's CPU, without router, sampler or network.
// One line of JSON per measurement on stdout.
ABSL_FLAG(std::string, model, "", "GGUF file, or folder with config.json and safetensors");
ABSL_FLAG(uint32_t, context, 512, "prompt tokens per sequence");
ABSL_FLAG(uint32_t, batch, 1, "sequences that decode together");
ABSL_FLAG(uint32_t, decode_steps, 64, "decode steps per repetition");
ABSL_FLAG(uint32_t, repetitions, 3, "the median is reported");
ABSL_FLAG(int, threads, 0, "0: one per core");
ABSL_FLAG(uint32_t, tensor_parallel, 1, "ranks that share the model");
ABSL_FLAG(bool, random_weights, false, "config.json alone, with random weights");

namespace lockstep::bench {
namespace {

using worker::ForwardModel;
using worker::ForwardRow;
using worker::ModelOptions;

constexpr uint32_t kBlockTokens = 16;

struct Setup {
  uint32_t context;
  uint32_t batch;
  uint32_t decode_steps;

  uint32_t BlocksPerSequence() const {
    return (context + decode_steps + kBlockTokens - 1) / kBlockTokens;
  }
};

struct Speed {
  double prefill_tokens_per_s;
  double decode_tokens_per_s;
};

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<BlockId> BlockTable(const Setup& setup, uint32_t sequence) {
  std::vector<BlockId> blocks(setup.BlocksPerSequence());
  std::iota(blocks.begin(), blocks.end(), sequence * setup.BlocksPerSequence());
  return blocks;
}

// Greedy, so that every step depends on the one before.
TokenId Argmax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Speed RunOnce(ForwardModel& model, const Setup& setup) {
  const uint32_t vocab_size = model.info().vocab_size;
  std::vector<std::vector<BlockId>> tables;
  for (uint32_t i = 0; i < setup.batch; ++i) tables.push_back(BlockTable(setup, i));
  std::vector<float> logits(static_cast<size_t>(setup.batch) * vocab_size);
  std::vector<TokenId> prompt(setup.context);
  for (uint32_t i = 0; i < setup.context; ++i) prompt[i] = (i * 7919 + 13) % vocab_size;
  std::vector<TokenId> next(setup.batch);

  auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < setup.batch; ++i) {
    const ForwardRow row = {.num_tokens = setup.context, .block_tables = {&tables[i], 1}};
    const uint32_t last = setup.context - 1;
    const std::span<float> row_logits = std::span(logits).first(vocab_size);
    model.Forward({.token_ids = prompt, .rows = {&row, 1}, .logits_tokens = {&last, 1}},
                  row_logits);
    next[i] = Argmax(row_logits);
  }
  const double prefill_s = Seconds(std::chrono::steady_clock::now() - start);

  std::vector<uint32_t> wanted(setup.batch);
  std::iota(wanted.begin(), wanted.end(), 0u);
  start = std::chrono::steady_clock::now();
  for (uint32_t step = 0; step < setup.decode_steps; ++step) {
    std::vector<ForwardRow> rows;
    for (uint32_t i = 0; i < setup.batch; ++i) {
      rows.push_back({.first_token = i,
                      .num_tokens = 1,
                      .first_position = setup.context + step,
                      .block_tables = {&tables[i], 1}});
    }
    model.Forward({.token_ids = next, .rows = rows, .logits_tokens = wanted}, logits);
    for (uint32_t i = 0; i < setup.batch; ++i) {
      next[i] = Argmax(std::span(logits).subspan(static_cast<size_t>(i) * vocab_size, vocab_size));
    }
  }
  const double decode_s = Seconds(std::chrono::steady_clock::now() - start);
  return {.prefill_tokens_per_s = setup.context * setup.batch / prefill_s,
          .decode_tokens_per_s = setup.decode_steps * setup.batch / decode_s};
}

absl::Status Run() {
  const Setup setup = {.context = absl::GetFlag(FLAGS_context),
                       .batch = absl::GetFlag(FLAGS_batch),
                       .decode_steps = absl::GetFlag(FLAGS_decode_steps)};
  if (setup.context == 0 || setup.batch == 0 || setup.decode_steps == 0) {
    return InvalidArgument("--context, --batch and --decode_steps must be positive");
  }
  const ModelOptions options = {.num_kv_blocks = setup.BlocksPerSequence() * setup.batch + 1,
                                .max_step_tokens = std::max(setup.context, setup.batch),
                                .max_logits_rows = setup.batch,
                                .num_threads = absl::GetFlag(FLAGS_threads),
                                .tensor_parallel = absl::GetFlag(FLAGS_tensor_parallel),
                                .random_weights = absl::GetFlag(FLAGS_random_weights)};
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<ForwardModel> model,
                            worker::LoadCpuModel(absl::GetFlag(FLAGS_model), options));
  const double load_s = Seconds(std::chrono::steady_clock::now() - start);
  if (setup.context + setup.decode_steps > model->info().max_context_tokens) {
    return InvalidArgument("the model's context is {} tokens", model->info().max_context_tokens);
  }
  if (model->info().kv_groups.size() > 1) {
    return InvalidArgument("the model has {} KV groups, this program measures models with one",
                           model->info().kv_groups.size());
  }
  std::vector<double> prefill;
  std::vector<double> decode;
  for (uint32_t i = 0; i < std::max(absl::GetFlag(FLAGS_repetitions), 1u); ++i) {
    const Speed speed = RunOnce(*model, setup);
    prefill.push_back(speed.prefill_tokens_per_s);
    decode.push_back(speed.decode_tokens_per_s);
  }
  fmt::print(
      "{{\"device\": \"{}\", \"ranks\": {}, \"context\": {}, \"batch\": {}, \"load_s\": {:.2f}, "
      "\"prefill_tokens_per_s\": {:.1f}, \"decode_tokens_per_s\": {:.1f}}}\n",
      model->info().device, model->info().tensor_parallel, setup.context, setup.batch, load_s,
      Median(prefill), Median(decode));
  return absl::OkStatus();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Measures prefill and decode speed of a model on the CPU.");
  absl::ParseCommandLine(argc, argv);
  if (const absl::Status status = lockstep::bench::Run(); !status.ok()) {
    fmt::print(stderr, "lockstep-model-benchmark: {}\n", lockstep::Message(status));
    return 1;
  }
  return 0;
}
