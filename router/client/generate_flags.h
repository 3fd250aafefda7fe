#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/flag.h"
#include "common/net/tls/tls_files.h"

namespace lockstep::router {

// What the flags of lockstep-generate say. The router decides what is not set.
struct GenerateOptions {
  std::string router = "127.0.0.1:50051";
  TlsClientFiles tls;
  std::string api_key;  // or @FILE, which has it
  absl::Duration wait = absl::ZeroDuration();
  absl::Duration timeout = absl::InfiniteDuration();

  // The prompt: exactly one of these four.
  std::optional<std::string> prompt;
  std::string token_ids;
  std::vector<std::string> chat;  // ROLE:CONTENT of each message
  bool interactive = false;

  std::string system;
  bool continue_final_message = false;
  std::string template_arguments;
  std::optional<uint32_t> truncate_prompt_tokens;

  std::string model;
  std::string request_id;
  std::optional<int32_t> priority;
  std::string tenant;
  std::string cache_salt;
  bool bypass_prefix_cache = false;

  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint32_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> n;
  std::string logit_bias;
  std::string allowed_token_ids;
  std::vector<std::string> bad_words;

  std::optional<uint32_t> max_tokens;
  std::optional<uint32_t> min_tokens;
  std::vector<std::string> stop;
  std::string stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  bool fit_max_tokens = false;

  std::optional<uint32_t> logprobs;
  std::optional<uint32_t> prompt_logprobs;
  bool skip_special_tokens = true;
  bool json = false;
  bool stats = false;
};

// The flags of lockstep-generate. They set fields of `options`. Its values are the defaults.
FlagTable GenerateFlags(GenerateOptions& options);

}  // namespace lockstep::router
