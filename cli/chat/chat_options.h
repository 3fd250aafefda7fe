#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <span>
#include <string>

#include "cli/common/server_url.h"
#include "cli/common/verb.h"
#include "router/client/generation_client.h"

namespace lockstep::cli {

struct ChatOptions {
  ServerUrl server;
  router::GenerationClient::Options client;
  std::string system;
  // The server chooses a value for each absent one.
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> seed;

  // The request without its prompt.
  lockstep::v1::GenerateRequest MakeRequest() const;
};

// INVALID_ARGUMENT names every error.
absl::StatusOr<ChatOptions> ParseChatOptions(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
