#include "router/engine/vllm_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::router {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct SameSeries {
  std::string_view own;  // without lockstep_router_
  std::string_view vllm;
};
constexpr SameSeries kSameSeries[] = {
    {"queue_requests", "vllm:num_requests_waiting"},
    {"running_requests", "vllm:num_requests_running"},
    {"requests_finished_total", "vllm:request_success_total"},
    {"time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds"},
    {"queue_wait_seconds", "vllm:request_queue_time_seconds"},
    {"request_duration_seconds", "vllm:e2e_request_latency_seconds"},
    {"request_prefill_seconds", "vllm:request_prefill_time_seconds"},
    {"request_decode_seconds", "vllm:request_decode_time_seconds"},
    {"request_inference_seconds", "vllm:request_inference_time_seconds"},
    {"request_prompt_tokens", "vllm:request_prompt_tokens"},
    {"request_max_tokens", "vllm:request_params_max_tokens"},
    {"request_samples", "vllm:request_params_n"},
    {"request_longest_generation_tokens", "vllm:request_max_num_generation_tokens"},
    {"sequence_generation_tokens", "vllm:request_generation_tokens"},
    {"prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"prompt_tokens_cached_total", "vllm:prompt_tokens_cached_total"},
    {"generation_tokens_total", "vllm:generation_tokens_total"},
    {"prefix_cache_query_tokens_total", "vllm:prefix_cache_queries_total"},
    {"prefix_cache_hit_tokens_total", "vllm:prefix_cache_hits_total"},
    {"preemptions_total", "vllm:num_preemptions_total"},
    {"spec_decode_draft_tokens_total", "vllm:spec_decode_num_draft_tokens_total"},
    {"spec_decode_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"},
    {"spec_decode_accepted_tokens_per_position_total",
     "vllm:spec_decode_num_accepted_tokens_per_pos_total"},
};

constexpr std::string_view kPrefix = "lockstep_router_";

std::string_view VllmLabel(std::string_view own) {
  if (own == "model") return "model_name";
  if (own == "reason") return "finished_reason";
  return own;
}

std::string LabelOf(const ClientMetric& metric, std::string_view name) {
  for (const ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

// With vLLM's labels.
ClientMetric Renamed(ClientMetric metric) {
  for (ClientMetric::Label& label : metric.label) label.name = VllmLabel(label.name);
  metric.label.push_back({.name = "engine", .value = "0"});
  return metric;
}

MetricFamily SameFamily(const MetricFamily& own, std::string_view name) {
  MetricFamily family = {
      .name = std::string(name), .help = own.help, .type = own.type, .metric = {}};
  std::transform(own.metric.begin(), own.metric.end(), std::back_inserter(family.metric), Renamed);
  return family;
}

struct Sums {
  double part = 0.0;
  double all = 0.0;
};

// Sums by model: of the series that `counts` selects, and of all series.
template <typename Counts>
std::map<std::string, Sums> SumByModel(const MetricFamily& own, const Counts& counts) {
  std::map<std::string, Sums> sums;
  for (const ClientMetric& metric : own.metric) {
    Sums& of_model = sums[LabelOf(metric, "model")];
    const double value =
        own.type == MetricType::Counter ? metric.counter.value : metric.gauge.value;
    of_model.all += value;
    if (counts(metric)) of_model.part += value;
  }
  return sums;
}

ClientMetric OfModel(const std::string& model) {
  ClientMetric metric;
  metric.label = {{.name = "model_name", .value = model}, {.name = "engine", .value = "0"}};
  return metric;
}

// Cached blocks count as free, as they do in vLLM.
MetricFamily KvCacheUsage(const MetricFamily& kv_blocks) {
  MetricFamily family = {.name = "vllm:kv_cache_usage_perc",
                         .help = "Share of the KV blocks that sequences hold, from 0 to 1.",
                         .type = MetricType::Gauge,
                         .metric = {}};
  const auto is_held = [](const ClientMetric& metric) {
    const std::string state = LabelOf(metric, "state");
    return state == "used" || state == "fenced";
  };
  for (const auto& [model, sums] : SumByModel(kv_blocks, is_held)) {
    ClientMetric metric = OfModel(model);
    metric.gauge.value = sums.all > 0.0 ? sums.part / sums.all : 0.0;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Always 1. The labels carry the facts. All workers of a router have blocks of one size.
MetricFamily CacheConfigInfo(const MetricFamily& kv_blocks, const MetricFamily& kv_block_tokens) {
  MetricFamily family = {.name = "vllm:cache_config_info",
                         .help = "Tokens that a KV block holds, and blocks of all workers.",
                         .type = MetricType::Gauge,
                         .metric = {}};
  const auto all = [](const ClientMetric&) { return true; };
  std::map<std::string, Sums> block_sizes = SumByModel(kv_block_tokens, all);
  for (const auto& [model, blocks] : SumByModel(kv_blocks, all)) {
    ClientMetric metric = OfModel(model);
    const auto text = [](double count) { return fmt::format("{:.0f}", count); };
    metric.label.push_back({.name = "block_size", .value = text(block_sizes[model].all)});
    metric.label.push_back({.name = "num_gpu_blocks", .value = text(blocks.all)});
    metric.gauge.value = 1.0;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Rows without drafts are no drafts in vLLM.
MetricFamily NumDrafts(const MetricFamily& rounds) {
  MetricFamily family = {.name = "vllm:spec_decode_num_drafts_total",
                         .help = "Rows of decodes with drafts.",
                         .type = MetricType::Counter,
                         .metric = {}};
  const auto drafts = [](const ClientMetric& metric) { return LabelOf(metric, "drafts") != "0"; };
  for (const auto& [model, sums] : SumByModel(rounds, drafts)) {
    ClientMetric metric = OfModel(model);
    metric.counter.value = sums.part;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

MetricFamily AdmissionRejections(const MetricFamily& rejected) {
  MetricFamily family = {.name = "vllm:admission_rejections_total",
                         .help = "Calls refused because too much waits.",
                         .type = MetricType::Counter,
                         .metric = {}};
  const auto is_for_what_waits = [](const ClientMetric& metric) {
    const std::string reason = LabelOf(metric, "reason");
    return reason == "queue_requests" || reason == "queue_tokens" || reason == "first_token";
  };
  for (const auto& [model, sums] : SumByModel(rejected, is_for_what_waits)) {
    ClientMetric metric = OfModel(model);
    metric.counter.value = sums.part;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> VllmMetrics::Collect() const {
  std::vector<MetricFamily> families = own_.Collect();
  std::vector<MetricFamily> vllm;
  const MetricFamily* kv_blocks = nullptr;
  const MetricFamily* kv_block_tokens = nullptr;
  for (const MetricFamily& own : families) {
    std::string_view name = own.name;
    if (!name.starts_with(kPrefix)) continue;
    name.remove_prefix(kPrefix.size());
    if (name == "kv_blocks") {
      vllm.push_back(KvCacheUsage(own));
      kv_blocks = &own;
    }
    if (name == "kv_block_tokens") kv_block_tokens = &own;
    if (name == "spec_decode_rounds_total") vllm.push_back(NumDrafts(own));
    if (name == "requests_rejected_total") vllm.push_back(AdmissionRejections(own));
    for (const SameSeries& same : kSameSeries) {
      if (name == same.own) vllm.push_back(SameFamily(own, same.vllm));
    }
  }
  if (kv_blocks != nullptr && kv_block_tokens != nullptr) {
    vllm.push_back(CacheConfigInfo(*kv_blocks, *kv_block_tokens));
  }
  std::move(vllm.begin(), vllm.end(), std::back_inserter(families));
  return families;
}

}  // namespace lockstep::router
