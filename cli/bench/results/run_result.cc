#include "cli/bench/results/run_result.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/status.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kFormat = 1;

// The numbers of a summary by their names in JSON.
template <typename Summary>
auto Numbers(Summary& summary) {
  return std::to_array<std::pair<const char*, decltype(&summary.seconds)>>(
      {{"seconds", &summary.seconds},
       {"requests_per_s", &summary.requests_per_s},
       {"output_tokens_per_s", &summary.output_tokens_per_s},
       {"prompt_tokens_per_s", &summary.prompt_tokens_per_s},
       {"good_share", &summary.good_share},
       {"goodput", &summary.goodput},
       {"late_ms_p99", &summary.late_ms_p99},
       {"cpu_share", &summary.cpu_share}});
}

template <typename Summary>
auto Counts(Summary& summary) {
  return std::to_array<std::pair<const char*, decltype(&summary.completed)>>(
      {{"completed", &summary.completed},
       {"failed", &summary.failed},
       {"output_tokens", &summary.output_tokens},
       {"prompt_tokens", &summary.prompt_tokens},
       {"cached_tokens", &summary.cached_tokens}});
}

template <typename Summary>
auto Distributions(Summary& summary) {
  return std::to_array<std::pair<const char*, decltype(&summary.ttft_ms)>>(
      {{"ttft_ms", &summary.ttft_ms},
       {"tpot_ms", &summary.tpot_ms},
       {"itl_ms", &summary.itl_ms},
       {"e2e_ms", &summary.e2e_ms}});
}

OrderedJson RunJson(const RunResult& run) {
  OrderedJson json = {
      {"target", run.target}, {"load", run.load}, {"level", run.level}, {"repeat", run.repeat}};
  for (const auto& [name, count] : Counts(run.summary)) json[name] = *count;
  json["errors"] = run.summary.errors;
  for (const auto& [name, number] : Numbers(run.summary)) json[name] = *number;
  for (const auto& [name, of] : Distributions(run.summary)) {
    json[name] = {
        {"mean", of->mean}, {"p50", of->p50}, {"p90", of->p90}, {"p99", of->p99}, {"max", of->max}};
  }
  json["generator_limits"] = run.summary.generator_limits;
  return json;
}

RunResult ToRun(const OrderedJson& json) {
  RunResult run = {.target = json.at("target"),
                   .load = json.at("load"),
                   .level = json.at("level"),
                   .repeat = json.at("repeat"),
                   .summary = {}};
  for (const auto& [name, count] : Counts(run.summary)) *count = json.at(name);
  for (const auto& [name, number] : Numbers(run.summary)) *number = json.at(name);
  for (const auto& [first, count] : json.at("errors").items()) run.summary.errors[first] = count;
  for (const auto& [name, of] : Distributions(run.summary)) {
    const OrderedJson& from = json.at(name);
    *of = {.mean = from.at("mean"),
           .p50 = from.at("p50"),
           .p90 = from.at("p90"),
           .p99 = from.at("p99"),
           .max = from.at("max")};
  }
  run.summary.generator_limits = json.at("generator_limits");
  return run;
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

}  // namespace

std::string ToJson(const BenchResult& result) {
  OrderedJson json = {{"format", kFormat},
                      {"date", result.date},
                      {"version", result.version},
                      {"command", result.command},
                      {"runs", OrderedJson::array()}};
  for (const RunResult& run : result.runs) json["runs"].push_back(RunJson(run));
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<BenchResult> ParseBenchResult(std::string_view json) {
  const OrderedJson parsed = OrderedJson::parse(json, nullptr, false);
  const auto format = parsed.find("format");
  if (!parsed.is_object() || format == parsed.end() || *format != kFormat) {
    return InvalidArgument("not a result of `lockstep bench` (format {})", kFormat);
  }
  try {
    BenchResult result = {.date = parsed.at("date"),
                          .version = parsed.at("version"),
                          .command = parsed.at("command"),
                          .runs = {}};
    for (const OrderedJson& run : parsed.at("runs")) result.runs.push_back(ToRun(run));
    return result;
  } catch (const OrderedJson::exception& error) {
    // Without the library's name for the error, which stands in brackets.
    const std::string_view text = error.what();
    const size_t end = text.find("] ");
    return InvalidArgument("not a result of `lockstep bench`: {}",
                           end == std::string_view::npos ? text : text.substr(end + 2));
  }
}

std::string ToMarkdown(const BenchResult& result) {
  std::string text =
      "| server | load | requests/s | output tokens/s | first token p50, p99 | per token p50, p99 "
      "| "
      "between pieces p50, p99 | whole p50, p99 | good | cached | failed |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  std::string notes;
  for (const RunResult& run : result.runs) {
    const BenchSummary& summary = run.summary;
    const auto pair = [](const Distribution& of) {
      return fmt::format("{:.4g}, {:.4g}", of.p50, of.p99);
    };
    text += fmt::format("| {} | {} | {:.4g} | {:.5g} | {} | {} | {} | {} | {} | {} | {} |\n",
                        run.target, run.load, summary.requests_per_s, summary.output_tokens_per_s,
                        pair(summary.ttft_ms), pair(summary.tpot_ms), pair(summary.itl_ms),
                        pair(summary.e2e_ms), Percent(summary.good_share, 1.0),
                        Percent(static_cast<double>(summary.cached_tokens),
                                static_cast<double>(summary.prompt_tokens)),
                        summary.failed);
    for (const auto& [first, count] : summary.errors) {
      notes += fmt::format("\n{}, {}: {} failed, the first with: {}", run.target, run.load, count,
                           first);
    }
    if (summary.generator_limits) {
      notes += fmt::format(
          "\n{}, {}: this program may be what was measured (requests left up to {:.3g} ms late, "
          "p99; it took {:.2g} cores). Give it more --threads, or a machine of its own.",
          run.target, run.load, summary.late_ms_p99, summary.cpu_share);
    }
  }
  text += "\nTimes are in milliseconds.\n";
  return notes.empty() ? text : text + notes + "\n";
}

}  // namespace lockstep::cli
