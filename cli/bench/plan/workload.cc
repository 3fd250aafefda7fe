#include "cli/bench/plan/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "common/status.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

// Below it, vocabularies have their tokens that end or pad a text.
constexpr uint32_t kFirstId = 3;
// For English text, to estimate the number of tokens of a recorded answer.
constexpr size_t kBytesPerToken = 4;

// The seeds of different lists of numbers never coincide.
std::mt19937_64 RandomOf(std::initializer_list<uint64_t> numbers) {
  std::seed_seq sequence(numbers.begin(), numbers.end());
  return std::mt19937_64(sequence);
}

void AppendIds(std::mt19937_64 random, size_t count, uint32_t vocab_size,
               std::vector<uint32_t>& ids) {
  std::uniform_int_distribution<uint32_t> id(kFirstId, std::max(kFirstId, vocab_size - 1));
  for (size_t i = 0; i < count; ++i) ids.push_back(id(random));
}

std::vector<uint32_t> Repeated(const std::vector<uint32_t>& lengths, int times) {
  std::vector<uint32_t> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), lengths.begin(), lengths.end());
  return all;
}

// The end of the JSON object that begins at `begin`, or nothing if the text ends inside it.
std::optional<size_t> EndOfObject(std::string_view text, size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::nullopt;
}

void AddConversation(const Json& conversation, std::vector<BenchRequest>& requests) {
  if (!conversation.contains("conversations")) return;
  std::vector<BenchMessage> messages;
  for (const Json& turn : conversation["conversations"]) {
    if (!turn.is_object() || !turn.contains("from") || !turn.contains("value")) return;
    if (!turn["from"].is_string() || !turn["value"].is_string()) return;
    const auto from = turn["from"].get<std::string>();
    auto value = turn["value"].get<std::string>();
    const bool answers = from == "gpt" || from == "assistant" || from == "chatgpt";
    if (answers && !messages.empty() && messages.back().role == "user" && !value.empty()) {
      const size_t tokens = std::max<size_t>(1, value.size() / kBytesPerToken);
      requests.push_back(
          {.token_ids = {}, .messages = messages, .max_tokens = static_cast<uint32_t>(tokens)});
    }
    const std::string role = answers ? "assistant" : from == "system" ? "system" : "user";
    if (!value.empty()) messages.push_back({role, std::move(value)});
  }
}

}  // namespace

BenchRequest RandomWorkload::Request(uint64_t seed, uint64_t index) const {
  const uint64_t conversation = index / turns;
  const uint64_t turn = index % turns;
  BenchRequest request;
  if (prefix_tokens > 0) {
    const uint64_t prefix = RandomOf({seed, 1, conversation})() % num_prefixes;
    AppendIds(RandomOf({seed, 2, prefix}), prefix_tokens, vocab_size, request.token_ids);
  }
  for (uint64_t t = 0; t <= turn; ++t) {
    std::mt19937_64 random = RandomOf({seed, 3, conversation, t});
    const uint32_t prompt_tokens = prompt.Draw(random);
    request.max_tokens = output.Draw(random);
    AppendIds(random, prompt_tokens, vocab_size, request.token_ids);
  }
  return request;
}

BenchRequest BenchScenario::Request(uint64_t seed, uint64_t index, uint32_t vocab_size) const {
  BenchRequest request;
  request.max_tokens = num_output_tokens;
  AppendIds(RandomOf({seed, 4, index}), prompt_lengths[index % prompt_lengths.size()], vocab_size,
            request.token_ids);
  return request;
}

std::vector<BenchScenario> AllBenchScenarios() {
  return {
      {"decode_heavy_b32", Repeated({64}, 32), 256},
      {"large_batch_short_b128", Repeated({48}, 128), 64},
      {"balanced_b32", Repeated({256}, 32), 128},
      {"prefill_heavy_b16", Repeated({1024}, 16), 16},
      {"long_prefill_b4", Repeated({2048}, 4), 8},
      {"mixed_prefill_b32", Repeated({32, 64, 96, 128, 192, 256, 384, 512}, 4), 64},
      {"long_decode_b32", Repeated({1024}, 32), 256},
  };
}

absl::StatusOr<BenchScenario> FindBenchScenario(std::string_view name) {
  std::string known;
  for (BenchScenario& scenario : AllBenchScenarios()) {
    if (scenario.name == name) return std::move(scenario);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", scenario.name);
  }
  return NotFound("there is no scenario \"{}\"; known: {}", name, known);
}

absl::StatusOr<std::vector<BenchRequest>> ParseShareGpt(std::string_view json) {
  std::vector<BenchRequest> requests;
  size_t at = json.find('{');
  while (at != std::string_view::npos) {
    const std::optional<size_t> end = EndOfObject(json, at);
    if (!end.has_value()) break;
    const Json conversation = Json::parse(json.substr(at, *end - at), nullptr, false);
    if (conversation.is_object()) AddConversation(conversation, requests);
    at = json.find('{', *end);
  }
  if (requests.empty()) {
    return InvalidArgument(
        "found no conversation with an answer: expected an array of {{\"conversations\": "
        "[{{\"from\": \"human\", \"value\": \"...\"}}, {{\"from\": \"gpt\", ...}}]}}");
  }
  return requests;
}

absl::StatusOr<std::vector<TracedRequest>> ParseTrace(std::string_view lines, uint32_t block_tokens,
                                                      uint32_t vocab_size) {
  std::vector<TracedRequest> trace;
  size_t number = 0;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json entry = Json::parse(line, nullptr, false);
    for (const char* field : {"timestamp", "input_length", "output_length"}) {
      if (!entry.is_object() || !entry.contains(field) || !entry[field].is_number() ||
          entry[field].get<double>() < 0) {
        return InvalidArgument("line {}: expected an object with a number \"{}\"", number, field);
      }
    }
    TracedRequest& traced = trace.emplace_back();
    traced.at_seconds = entry["timestamp"].get<double>();
    const auto length = std::max<size_t>(1, entry["input_length"].get<size_t>());
    traced.request.max_tokens = std::max(1u, entry["output_length"].get<uint32_t>());
    std::vector<uint32_t>& ids = traced.request.token_ids;
    if (entry.contains("hash_ids") && entry["hash_ids"].is_array()) {
      for (const Json& hash : entry["hash_ids"]) {
        if (!hash.is_number_integer() || ids.size() >= length) break;
        AppendIds(RandomOf({5, hash.get<uint64_t>()}), block_tokens, vocab_size, ids);
      }
    }
    if (ids.size() < length) {
      AppendIds(RandomOf({6, number}), length - ids.size(), vocab_size, ids);
    }
    ids.resize(length);
  }
  if (trace.empty()) return InvalidArgument("the trace has no line");
  std::ranges::stable_sort(trace, {}, &TracedRequest::at_seconds);
  const double first = trace.front().at_seconds;
  for (TracedRequest& traced : trace) traced.at_seconds -= first;
  return trace;
}

}  // namespace lockstep::cli
