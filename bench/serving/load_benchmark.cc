// lockstep-load-benchmark: how fast a running router serves, seen by its clients over gRPC.
//
//   decode:BxC    milliseconds per step with B streams at once from context C: the time of 144
//   output
//                 tokens less that of 16, over 128; as lockstep-engine-benchmark measures it in one
//                 process
//   stream:BxC    B streams in a closed loop, 4 rounds of prompts of C tokens and 128 output
//   tokens:
//                 tokens per second, time to first token and time per output token
//
// Prompts are random token ids, temperature 0, the prefix cache is bypassed, nothing stops early.
// One JSON object a line.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/runtime/named_thread.h"
#include "common/status.h"
#include "router/client/generation_client.h"
#include "tests/rigs/quantile.h"

ABSL_FLAG(std::string, address, "127.0.0.1:50051", "of the router");
ABSL_FLAG(std::vector<std::string>, cases, std::vector<std::string>({"decode:1x512"}), "see above");
ABSL_FLAG(int, repeats, 3, "of every case, after one warm-up");

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::Duration kTimeout = absl::Minutes(10);

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one request showed to its client.
struct Observation {
  double first_token_seconds = 0.0;
  double total_seconds = 0.0;
  uint32_t num_tokens = 0;
};

class Load {
 public:
  explicit Load(const std::string& address) : client_(address) {
    absl::StatusOr<v1::Model> model = client_.WaitUntilReady(absl::Seconds(60));
    LOCKSTEP_CHECK(model.ok(), "{}: {}", address, Message(model.status()));
    vocab_size_ = model->vocab_size();
  }

  // `num_rounds` requests, one after the other, on each of `num_streams` threads.
  struct Shape {
    int num_streams = 1;
    int num_rounds = 1;
    uint32_t num_prompt_tokens = 1;
    uint32_t num_output_tokens = 1;
  };
  std::vector<Observation> Run(const Shape& shape) {
    std::vector<std::vector<Observation>> observations(static_cast<size_t>(shape.num_streams));
    std::vector<NamedThread> threads;
    for (int i = 0; i < shape.num_streams; ++i) {
      const uint32_t seed = next_seed_++;
      std::vector<Observation>& mine = observations[static_cast<size_t>(i)];
      threads.emplace_back("stream", [this, shape, seed, &mine] {
        std::mt19937 random(seed);
        for (int round = 0; round < shape.num_rounds; ++round) mine.push_back(Ask(shape, random));
      });
    }
    for (NamedThread& thread : threads) thread.join();
    std::vector<Observation> all;
    for (const auto& mine : observations) all.insert(all.end(), mine.begin(), mine.end());
    return all;
  }

 private:
  Observation Ask(const Shape& shape, std::mt19937& random) {
    v1::GenerateRequest request;
    std::uniform_int_distribution<uint32_t> token(0, vocab_size_ - 1);
    for (uint32_t i = 0; i < shape.num_prompt_tokens; ++i) {
      request.mutable_token_ids()->add_ids(token(random));
    }
    request.set_bypass_prefix_cache(true);
    request.mutable_sampling()->set_temperature(0.0f);
    request.mutable_stop()->set_max_tokens(shape.num_output_tokens);
    request.mutable_stop()->set_ignore_eos(true);
    Observation observation;
    const Clock::time_point start = Clock::now();
    const absl::Status status =
        client_
            .Generate(request, kTimeout,
                      [&](const v1::GenerateResponse& response) {
                        if (!response.has_delta()) return;
                        if (observation.num_tokens == 0) {
                          observation.first_token_seconds = SecondsSince(start);
                        }
                        observation.num_tokens +=
                            static_cast<uint32_t>(response.delta().token_ids_size());
                      })
            .status();
    observation.total_seconds = SecondsSince(start);
    LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
    LOCKSTEP_CHECK(observation.num_tokens == shape.num_output_tokens, "{} tokens came, expected {}",
                   observation.num_tokens, shape.num_output_tokens);
    return observation;
  }

  router::GenerationClient client_;
  uint32_t vocab_size_ = 0;
  uint32_t next_seed_ = 1;
};

double SecondsOf(Load& load, const Load::Shape& shape) {
  const Clock::time_point start = Clock::now();
  load.Run(shape);
  return SecondsSince(start);
}

void MeasureDecode(Load& load, const std::string& name, Load::Shape shape) {
  const auto step_ms = [&] {
    shape.num_output_tokens = 16;
    const double less = SecondsOf(load, shape);
    shape.num_output_tokens = 144;
    return (SecondsOf(load, shape) - less) / 128 * 1e3;
  };
  step_ms();
  std::vector<double> values;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) values.push_back(step_ms());
  std::printf("{\"case\": \"%s\", \"unit\": \"ms/step\", \"median\": %.4f, \"min\": %.4f}\n",
              name.c_str(), Quantile(values, 0.5), Quantile(values, 0.0));
}

void MeasureStreams(Load& load, const std::string& name, Load::Shape shape) {
  shape.num_rounds = 1;
  shape.num_output_tokens = 128;
  load.Run(shape);
  shape.num_rounds = 4;
  const Clock::time_point start = Clock::now();
  const std::vector<Observation> observations = load.Run(shape);
  const double seconds = SecondsSince(start);
  std::vector<double> first_ms;
  std::vector<double> per_token_ms;
  double num_tokens = 0;
  for (const Observation& one : observations) {
    first_ms.push_back(one.first_token_seconds * 1e3);
    per_token_ms.push_back((one.total_seconds - one.first_token_seconds) / (one.num_tokens - 1) *
                           1e3);
    num_tokens += one.num_tokens;
  }
  std::printf(
      "{\"case\": \"%s\", \"tokens_per_s\": %.1f, \"ttft_ms_p50\": %.2f, \"ttft_ms_p99\": %.2f, "
      "\"tpot_ms_p50\": %.3f, \"tpot_ms_p99\": %.3f}\n",
      name.c_str(), num_tokens / seconds, Quantile(first_ms, 0.5), Quantile(first_ms, 0.99),
      Quantile(per_token_ms, 0.5), Quantile(per_token_ms, 0.99));
}

void RunCase(Load& load, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, absl::ByAnyChar(":x"));
  Load::Shape shape;
  const bool is_known = parts.size() == 3 && (parts[0] == "decode" || parts[0] == "stream");
  LOCKSTEP_CHECK(is_known && absl::SimpleAtoi(parts[1], &shape.num_streams) &&
                     absl::SimpleAtoi(parts[2], &shape.num_prompt_tokens),
                 "case '{}': expected decode:BxC or stream:BxC", name);
  if (parts[0] == "decode") {
    MeasureDecode(load, name, shape);
  } else {
    MeasureStreams(load, name, shape);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  lockstep::bench::Load load(absl::GetFlag(FLAGS_address));
  for (const std::string& name : absl::GetFlag(FLAGS_cases)) lockstep::bench::RunCase(load, name);
  return 0;
}
