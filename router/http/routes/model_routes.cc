#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "common/net/percent_encoding.h"
#include "router/http/json/json_writer.h"
#include "router/http/routes/route.h"
#include "router/serving/calls/text_requests.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kModels = "/v1/models";

// For clients of older APIs: all users may sample, and nothing else.
void WritePermission(std::string_view model, absl::Time created, JsonWriter& json) {
  json.BeginObject().Key("id").String(fmt::format("modelperm-{}", model));
  json.Key("object").String("model_permission").Key("created").Int(absl::ToUnixSeconds(created));
  json.Key("allow_create_engine").Bool(false).Key("allow_sampling").Bool(true);
  json.Key("allow_logprobs").Bool(true).Key("allow_search_indices").Bool(false);
  json.Key("allow_view").Bool(true).Key("allow_fine_tuning").Bool(false);
  json.Key("organization").String("*").Key("group").Null().Key("is_blocking").Bool(false);
  json.EndObject();
}

// `model`: the served one, perhaps under another name.
void WriteModel(const lockstep::v1::Model& model, const ApiContext& api, JsonWriter& json) {
  const absl::Time created = api.started;
  json.BeginObject().Key("id").String(model.id()).Key("object").String("model");
  json.Key("created").Int(absl::ToUnixSeconds(created)).Key("owned_by").String("lockstep");
  json.Key("root").String(api.model.id).Key("parent").Null();
  json.Key("max_model_len").Int(model.max_context_tokens());
  if (model.weights_bytes() > 0) {
    json.Key("weights_dtype").String(model.weights_dtype());
    json.Key("weights_bytes").Int(static_cast<int64_t>(model.weights_bytes()));
    json.Key("kv_dtype").String(model.kv_dtype());
  }
  if (api.model.output_format != nullptr) {
    json.Key("tool_format").String(NameOf(*api.model.output_format));
  }
  json.Key("permission").BeginArray();
  WritePermission(model.id(), created, json);
  json.EndArray().EndObject();
}

std::string ModelList(const ApiContext& api) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const lockstep::v1::Model& model : DescribeModels(api)) WriteModel(model, api, json);
  // Codex looks for models here, in a form of its own, and warns if there is no such list.
  json.EndArray().Key("models").BeginArray().EndArray().EndObject();
  return body;
}

std::shared_ptr<Exchange> ReplyModel(RouteContext& context, RoutedRequest& request,
                                     const std::string& id) {
  lockstep::v1::GetModelRequest named;
  named.set_model(id);
  if (const absl::Status status = CheckModelRequest(context.api, named); !status.ok()) {
    return ReplyError(context, request, status);
  }
  std::string body;
  JsonWriter json(body);
  lockstep::v1::Model model = DescribeModel(context.api);
  model.set_id(id);
  WriteModel(model, context.api, json);
  return Reply(request, {}, std::move(body));
}

std::shared_ptr<Exchange> AnswerModels(RouteContext& context, RoutedRequest request) {
  const std::string_view rest = std::string_view(request.http.path).substr(kModels.size());
  if (rest.empty() || rest == "/") {
    return Reply(request, {}, ModelList(context.api));
  }
  return ReplyModel(context, request, PercentDecoded(rest.substr(1)));
}

}  // namespace

std::vector<Route> ModelRoutes() {
  return {{.path = std::string(kModels),
           .covers_subpaths = true,
           .has_metric = true,
           .answer = AnswerModels}};
}

}  // namespace lockstep::router
