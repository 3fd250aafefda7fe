#include "cli/chat/chat_options.h"

#include <limits>

#include "cli/common/api_key.h"
#include "cli/common/options.h"
#include "common/status.h"

namespace lockstep::cli {

absl::StatusOr<ChatOptions> ParseChatOptions(const Verb& verb, std::span<const std::string> words) {
  Arguments arguments = Arguments::Parse(verb.options, words);
  arguments.ExpectPositionals({});
  arguments.ExpectNoRest();
  ChatOptions options;
  std::string url = "127.0.0.1:8000";
  arguments.Read("url", url);
  const absl::StatusOr<ServerUrl> server = ParseServerUrl(url);
  if (server.ok()) {
    options.server = *server;
  } else {
    arguments.AddError("--url: " + Message(server.status()));
  }
  std::string key;
  arguments.Read("api-key", key);
  absl::StatusOr<std::string> read_key = ReadApiKey(key);
  if (read_key.ok()) {
    options.client.api_key = *std::move(read_key);
  } else {
    arguments.AddError("--api-key: " + Message(read_key.status()));
  }
  arguments.Read("tls-ca", options.client.tls.ca_path);
  if (const absl::Status readable = options.client.tls.Validate(); !readable.ok()) {
    arguments.AddError("--tls-ca: " + Message(readable));
  }
  if (options.server.tls && !options.client.tls.enabled()) {
    arguments.AddError("--tls-ca is missing: https needs it");
  } else if (server.ok() && !options.server.tls && options.client.tls.enabled()) {
    arguments.AddError("--url: expected https://... with --tls-ca, got \"" + url + "\"");
  }
  arguments.Read("system", options.system);
  arguments.ReadNumber("temperature", 0, 100, options.temperature);
  arguments.ReadNumber("top-p", 0, 1, options.top_p);
  arguments.ReadInteger("max-tokens", 1, std::numeric_limits<uint32_t>::max(), options.max_tokens);
  arguments.ReadInteger("seed", 0, std::numeric_limits<uint64_t>::max(), options.seed);
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return options;
}

lockstep::v1::GenerateRequest ChatOptions::MakeRequest() const {
  lockstep::v1::GenerateRequest request;
  lockstep::v1::SamplingParams* const sampling = request.mutable_sampling();
  if (temperature) sampling->set_temperature(static_cast<float>(*temperature));
  if (top_p) sampling->set_top_p(static_cast<float>(*top_p));
  if (seed) sampling->set_seed(*seed);
  if (max_tokens) request.mutable_stop()->set_max_tokens(static_cast<uint32_t>(*max_tokens));
  request.mutable_output()->set_skip_special_tokens(true);
  return request;
}

}  // namespace lockstep::cli
