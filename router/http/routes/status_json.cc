#include "router/http/routes/status_json.h"

#include <vector>

#include "common/version.h"
#include "router/http/json/json_writer.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxRequests = 32;
constexpr std::string_view kFleetKey = "";  // no tenant has this name

void WriteHead(const ApiContext& context, std::string_view scope, JsonWriter& json) {
  json.Key("now_ms").Int(absl::ToUnixMillis(context.clock.TimeOfDay()));
  json.Key("version").String(Version()).Key("commit").String(GitCommit());
  json.Key("model").String(context.model.id).Key("scope").String(scope);
}

void WriteBlocks(uint64_t used, uint64_t cached, uint64_t free, JsonWriter& json) {
  json.BeginObject().Key("used").Int(used).Key("cached").Int(cached).Key("free").Int(free);
  json.EndObject();
}

void WriteReplicas(const FleetHistory::View& view, JsonWriter& json) {
  json.Key("num_replicas").Int(view.num_replicas);
  json.Key("replicas").BeginArray();
  for (const ReplicaSample& replica : view.replicas) {
    json.BeginObject().Key("worker").String(replica.worker);
    json.Key("state").String(WorkerStateName(replica.state));
    json.Key("running").Int(replica.running).Key("waiting").Int(replica.waiting);
    json.Key("kv_blocks");
    WriteBlocks(replica.used_blocks, replica.cached_blocks, replica.free_blocks, json);
    if (!replica.further_groups.empty()) {
      json.Key("further_kv_groups").BeginArray();
      for (const BlockCounts& group : replica.further_groups) {
        WriteBlocks(uint64_t{group.used} + group.fenced, group.cached, group.free, json);
      }
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
}

template <typename Value>
void WriteSeries(std::string_view name, const std::vector<FleetSample>& samples,
                 Value FleetSample::* value, JsonWriter& json) {
  json.Key(name).BeginArray();
  for (const FleetSample& sample : samples) json.Int(sample.*value);
  json.EndArray();
}

void WriteSamples(const std::vector<FleetSample>& samples, JsonWriter& json) {
  json.Key("samples").BeginObject();
  json.Key("interval_ms").Int(absl::ToInt64Milliseconds(FleetHistory::kInterval));
  WriteSeries("running", samples, &FleetSample::running, json);
  WriteSeries("waiting", samples, &FleetSample::waiting, json);
  WriteSeries("prefill_tokens", samples, &FleetSample::prefill_tokens, json);
  WriteSeries("decode_tokens", samples, &FleetSample::decode_tokens, json);
  WriteSeries("kv_used", samples, &FleetSample::used_blocks, json);
  WriteSeries("kv_cached", samples, &FleetSample::cached_blocks, json);
  WriteSeries("kv_total", samples, &FleetSample::total_blocks, json);
  json.EndObject();
}

void WriteRequests(const std::vector<RequestView>& requests, JsonWriter& json) {
  json.Key("requests").BeginArray();
  for (const RequestView& request : requests) {
    json.BeginObject().Key("id").String(request.id);
    json.Key("state").String(RequestStateName(request.state));
    json.Key("age_ms").Int(absl::ToInt64Milliseconds(request.age));
    json.Key("prompt_tokens").Int(request.num_prompt_tokens);
    json.Key("output_tokens").Int(request.num_output_tokens);
    json.Key("first_token_ms");
    if (request.first_token == absl::InfiniteDuration()) {
      json.Null();
    } else {
      json.Int(absl::ToInt64Milliseconds(request.first_token));
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string StatusJson::OfFleet() { return Cached(kFleetKey, &StatusJson::MakeFleet); }

std::string StatusJson::OfTenant(std::string_view tenant) {
  return Cached(tenant, &StatusJson::MakeTenant);
}

std::string StatusJson::Cached(std::string_view key,
                               std::string (StatusJson::*make)(std::string_view) const) {
  const uint64_t sample = context_.history.number();
  MutexLock lock(mutex_);
  if (sample_ != sample) kept_.clear();
  sample_ = sample;
  const auto [entry, added] = kept_.try_emplace(std::string(key));
  if (added) entry->second = (this->*make)(key);
  return entry->second;
}

std::string StatusJson::MakeFleet(std::string_view) const {
  const FleetHistory::View view = context_.history.view();
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  WriteHead(context_, "fleet", json);
  WriteReplicas(view, json);
  WriteSamples(view.samples, json);
  WriteRequests(context_.board.Slowest(kMaxRequests, context_.clock.Now()), json);
  json.EndObject();
  return text;
}

std::string StatusJson::MakeTenant(std::string_view tenant) const {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  WriteHead(context_, "tenant", json);
  WriteRequests(context_.board.SlowestOf(tenant, kMaxRequests, context_.clock.Now()), json);
  json.EndObject();
  return text;
}

}  // namespace lockstep::router
