#include "tests/rigs/soak/soak.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/rigs/soak/attacks/hostile_soak.h"
#include "tests/rigs/soak/fault_soak.h"
#include "tests/rigs/soak/idle_soak.h"
#include "tests/rigs/soak/overload_soak.h"

namespace lockstep::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string_view NameOf(SoakMode mode) {
  switch (mode) {
    case SoakMode::kKill:
      return "kill9";
    case SoakMode::kStop:
      return "sigstop";
    case SoakMode::kHalfOpen:
      return "half-open";
    case SoakMode::kTakeover:
      return "takeover";
    case SoakMode::kOverload:
      return "overload";
    case SoakMode::kHostile:
      return "hostile";
    case SoakMode::kEach:
      return "each";
    case SoakMode::kIdle:
      return "idle";
  }
  return "";
}

double Rounded(double value) { return std::round(value * 1000) / 1000; }

Json ToJson(const LoadReport& load) {
  return {{"offered_per_s", Rounded(load.offered_per_second)},
          {"goodput_per_s", Rounded(load.goodput_per_second)},
          {"requests", load.num_requests},
          {"finished", load.num_finished},
          {"refused", load.num_refused},
          {"failed", load.num_failed},
          {"refusal_p50_ms", Rounded(load.refusal_p50_ms)},
          {"refusal_p99_ms", Rounded(load.refusal_p99_ms)},
          {"peak_queue_requests", load.peak_queue_requests},
          {"peak_queue_tokens", load.peak_queue_tokens},
          {"router_rss_kib", {load.start_rss_kib, load.end_rss_kib}}};
}

Json ToJson(const LatencyReport& latency) {
  return {{"requests", latency.num_requests},
          {"first_token_p50_ms", Rounded(latency.first_token_p50_ms)},
          {"first_token_p99_ms", Rounded(latency.first_token_p99_ms)},
          {"whole_p50_ms", Rounded(latency.whole_p50_ms)},
          {"whole_p99_ms", Rounded(latency.whole_p99_ms)}};
}

Json ToJson(const PhaseReport& phase) {
  Json json = ToJson(phase.latency);
  for (const AttackReport& attack : phase.attacks) {
    json["attacks"][attack.name] = {{"attempts", attack.num_attempts},
                                    {"answered", attack.num_answered},
                                    {"refused", attack.num_refused},
                                    {"cut_off", attack.num_cut_off}};
  }
  json["start_rss_kib"] = phase.start_rss_kib;
  json["peak_rss_kib"] = phase.peak_rss_kib;
  json["wrong"] = phase.num_wrong;
  return json;
}

void AddHostile(const HostileReport& hostile, Json& json) {
  json["quiet"] = ToJson(hostile.quiet);
  for (const PhaseReport& phase : hostile.attacked) {
    Json one = ToJson(phase);
    one["within_budget"] = hostile.is_within_budget(phase);
    one["swift"] = phase.is_swift(hostile.quiet);
    json["phases"][phase.name] = one;
  }
  json["budget_mib"] = hostile.budget_mib;
  json["final_rss_kib"] = hostile.final_rss_kib;
  json["within_budget"] = hostile.within_budget();
  json["given_back"] = hostile.given_back();
}

void AddClients(const ClientTally& clients, Json& json) {
  json["requests"] = clients.num_requests;
  json["finished"] = clients.num_finished;
  json["refused"] = clients.num_refused;
  json["failed"] = clients.num_failed;
  json["messages"] = clients.messages;
  json["tokens"] = clients.num_tokens;
  json["wrong_tokens"] = clients.num_wrong_tokens;
  json["duplicate_tokens"] = clients.num_duplicate_tokens;
  json["missing_tokens"] = clients.num_missing_tokens;
  json["bad_finishes"] = clients.num_bad_finishes;
}

}  // namespace

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options) {
  switch (options.mode) {
    case SoakMode::kKill:
    case SoakMode::kStop:
    case SoakMode::kHalfOpen:
      return RunWorkerFaults(options);
    case SoakMode::kTakeover:
      return RunTakeovers(options);
    case SoakMode::kOverload:
      return RunOverload(options);
    case SoakMode::kHostile:
      return RunHostile(options);
    case SoakMode::kEach:
      return RunEachAttack(options);
    case SoakMode::kIdle:
      return RunIdle(options);
  }
  return absl::InvalidArgumentError("no such mode");
}

std::optional<SoakMode> ParseSoakMode(std::string_view name) {
  for (const SoakMode mode :
       {SoakMode::kKill, SoakMode::kStop, SoakMode::kHalfOpen, SoakMode::kTakeover,
        SoakMode::kOverload, SoakMode::kHostile, SoakMode::kEach, SoakMode::kIdle}) {
    if (NameOf(mode) == name) return mode;
  }
  return std::nullopt;
}

std::string ToJson(const SoakOptions& options, const SoakReport& report) {
  Json json = {{"mode", NameOf(options.mode)},
               {"seconds", absl::ToDoubleSeconds(options.duration)},
               {"seed", options.seed}};
  if (options.mode == SoakMode::kOverload) {
    json["loads"] = Json::array();
    for (const LoadReport& load : report.loads) json["loads"].push_back(ToJson(load));
  } else if (options.mode == SoakMode::kIdle) {
    for (const IdleReport& idle : report.idle) {
      json[idle.name] = {{"count", idle.count},
                         {"start_rss_kib", idle.start_rss_kib},
                         {"end_rss_kib", idle.end_rss_kib},
                         {"kib_each", Rounded(idle.kib_each())}};
    }
  } else if (options.mode == SoakMode::kHostile || options.mode == SoakMode::kEach) {
    json["streams"] = options.num_streams;
    AddClients(report.clients, json);
    AddHostile(report.hostile, json);
  } else {
    json["streams"] = options.num_streams;
    AddClients(report.clients, json);
    json["faults"] = report.num_faults;
    json["max_restart_s"] = Rounded(report.max_restart_seconds);
    json["fenced_routers"] = report.num_fenced_routers;
    json["disturbances"] = report.num_disturbances;
    json["resumed"] = report.num_resumed;
    json["router_rss_kib"] = report.rss_kib;
  }
  json["leaked"] = report.leaked;
  return json.dump();
}

}  // namespace lockstep::bench
