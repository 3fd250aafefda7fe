// lockstep-generate: asks a router, from the command line or as a chat.
#include <absl/flags/flag.h>
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/command_line.h"
#include "common/runtime/mapped_file.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "router/client/generation_client.h"

ABSL_FLAG(std::string, router, "127.0.0.1:50051", "host:port of the router");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM certificates of the authorities of the router's; empty: plaintext");
ABSL_FLAG(std::string, tls_cert, "", "PEM certificate that the router may ask for");
ABSL_FLAG(std::string, tls_key, "", "its PEM key");
ABSL_FLAG(std::string, tls_server_name, "",
          "the name in the router's certificate; empty: the host of --router");
ABSL_FLAG(std::string, api_key, "",
          "shown to the router; @FILE reads it from a file, out of sight of other users");
ABSL_FLAG(std::optional<std::string>, prompt, std::nullopt, "a text to continue");
ABSL_FLAG(std::string, token_ids, "", "a prompt as token ids: 1,2,3");
ABSL_FLAG(std::string, system, "", "a system message in front of --chat or --interactive");
ABSL_FLAG(bool, interactive, false,
          "chat: one line a message, end with Ctrl-D, /reset starts over");
ABSL_FLAG(bool, continue_final_message, false, "the output continues the last message of --chat");
ABSL_FLAG(std::string, template_arguments, "", "variables for the chat template, one JSON object");
ABSL_FLAG(std::string, model, "", "the model's name; empty: whatever the router serves");
ABSL_FLAG(std::string, request_id, "", "the request's id; empty: the router makes one");
ABSL_FLAG(std::optional<double>, temperature, std::nullopt, "0 is greedy");
ABSL_FLAG(std::optional<double>, top_p, std::nullopt, "in (0, 1]");
ABSL_FLAG(std::optional<uint32_t>, top_k, std::nullopt, "0 is off");
ABSL_FLAG(std::optional<double>, min_p, std::nullopt, "in [0, 1]");
ABSL_FLAG(std::optional<double>, presence_penalty, std::nullopt, "in [-2, 2]");
ABSL_FLAG(std::optional<double>, frequency_penalty, std::nullopt, "in [-2, 2]");
ABSL_FLAG(std::optional<double>, repetition_penalty, std::nullopt, "in (0, 10]");
ABSL_FLAG(std::optional<uint64_t>, seed, std::nullopt,
          "of the draws; the router draws one otherwise");
ABSL_FLAG(std::optional<uint32_t>, n, std::nullopt, "outputs");
ABSL_FLAG(std::string, logit_bias, "", "id:bias,id:bias");
ABSL_FLAG(std::string, allowed_token_ids, "", "only these ids: 1,2,3");
ABSL_FLAG(std::vector<std::string>, bad_words, {}, "words of one token that never come: a,b");
ABSL_FLAG(std::optional<uint32_t>, max_tokens, std::nullopt, "of each output");
ABSL_FLAG(std::optional<uint32_t>, min_tokens, std::nullopt, "of each output");
ABSL_FLAG(std::string, stop_token_ids, "", "ids that end an output: 1,2,3");
ABSL_FLAG(bool, ignore_eos, false, "the model's end ids do not end an output");
ABSL_FLAG(bool, include_stop, false, "keep the stop string in the text");
ABSL_FLAG(std::optional<uint32_t>, logprobs, std::nullopt,
          "log-probabilities of this many best tokens, in --json");
ABSL_FLAG(std::optional<uint32_t>, prompt_logprobs, std::nullopt, "likewise for the prompt");
ABSL_FLAG(bool, skip_special_tokens, true, "leave special tokens out of the text");
ABSL_FLAG(std::optional<int32_t>, priority, std::nullopt, "lower runs earlier");
ABSL_FLAG(std::string, tenant, "", "fairness id");
ABSL_FLAG(std::string, cache_salt, "", "prefixes are shared under equal salts only");
ABSL_FLAG(bool, bypass_prefix_cache, false, "compute the whole prompt");
ABSL_FLAG(std::optional<uint32_t>, truncate_prompt_tokens, std::nullopt,
          "keep the last tokens only");
ABSL_FLAG(bool, json, false, "print one JSON object when everything is there");
ABSL_FLAG(bool, stats, false, "print rates to stderr");
ABSL_FLAG(absl::Duration, timeout, absl::InfiniteDuration(), "deadline of a request");
ABSL_FLAG(absl::Duration, wait_seconds, absl::ZeroDuration(),
          "wait this long for the router and its worker");

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr char kUsage[] =
    "lockstep-generate --router HOST:PORT, and one of\n"
    "  --prompt TEXT                 continue a text\n"
    "  --chat ROLE:CONTENT ...       answer a conversation (repeatable), --system TEXT before it\n"
    "  --token_ids 1,2,3             continue token ids\n"
    "  --interactive                 chat until Ctrl-D\n"
    "--stop TEXT is repeatable. Exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 no "
    "router or\n"
    "worker within --wait_seconds.";

enum ExitCode { kDone = 0, kFailed = 1, kUsageError = 2, kNotReady = 3 };

absl::StatusOr<std::vector<uint32_t>> ParseIds(std::string_view flag, const std::string& text) {
  std::vector<uint32_t> ids;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    if (!absl::SimpleAtoi(part, &ids.emplace_back())) {
      return InvalidArgument("--{}: expected ids as 1,2,3, got \"{}\"", flag, text);
    }
  }
  return ids;
}

absl::Status AddLogitBias(const std::string& text, v1::SamplingParams* sampling) {
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    uint32_t id = 0;
    float bias = 0;
    if (!absl::SimpleAtoi(pair.first, &id) || !absl::SimpleAtof(pair.second, &bias)) {
      return InvalidArgument("--logit_bias: expected id:bias,id:bias, got \"{}\"", text);
    }
    (*sampling->mutable_logit_bias())[id] = bias;
  }
  return absl::OkStatus();
}

absl::Status FillSampling(v1::SamplingParams* out) {
  if (const auto v = absl::GetFlag(FLAGS_temperature)) out->set_temperature(static_cast<float>(*v));
  if (const auto v = absl::GetFlag(FLAGS_top_p)) out->set_top_p(static_cast<float>(*v));
  if (const auto v = absl::GetFlag(FLAGS_top_k)) out->set_top_k(*v);
  if (const auto v = absl::GetFlag(FLAGS_min_p)) out->set_min_p(static_cast<float>(*v));
  if (const auto v = absl::GetFlag(FLAGS_presence_penalty)) {
    out->set_presence_penalty(static_cast<float>(*v));
  }
  if (const auto v = absl::GetFlag(FLAGS_frequency_penalty)) {
    out->set_frequency_penalty(static_cast<float>(*v));
  }
  if (const auto v = absl::GetFlag(FLAGS_repetition_penalty)) {
    out->set_repetition_penalty(static_cast<float>(*v));
  }
  if (const auto v = absl::GetFlag(FLAGS_seed)) out->set_seed(*v);
  if (const auto v = absl::GetFlag(FLAGS_n)) out->set_n(*v);
  LOCKSTEP_RETURN_IF_ERROR(AddLogitBias(absl::GetFlag(FLAGS_logit_bias), out));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint32_t> allowed,
                            ParseIds("allowed_token_ids", absl::GetFlag(FLAGS_allowed_token_ids)));
  out->mutable_allowed_token_ids()->Add(allowed.begin(), allowed.end());
  for (const std::string& word : absl::GetFlag(FLAGS_bad_words)) out->add_bad_words(word);
  return absl::OkStatus();
}

absl::Status FillStop(const std::vector<std::string>& stop_strings, v1::StopCriteria* out) {
  if (const auto v = absl::GetFlag(FLAGS_max_tokens)) out->set_max_tokens(*v);
  if (const auto v = absl::GetFlag(FLAGS_min_tokens)) out->set_min_tokens(*v);
  for (const std::string& text : stop_strings) out->add_stop(text);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids,
                            ParseIds("stop_token_ids", absl::GetFlag(FLAGS_stop_token_ids)));
  out->mutable_stop_token_ids()->Add(ids.begin(), ids.end());
  if (absl::GetFlag(FLAGS_ignore_eos)) out->set_ignore_eos(true);
  if (absl::GetFlag(FLAGS_include_stop)) out->set_include_stop(true);
  return absl::OkStatus();
}

// Everything but the prompt.
absl::Status FillRequest(const std::vector<std::string>& stop_strings,
                         v1::GenerateRequest& request) {
  request.set_request_id(absl::GetFlag(FLAGS_request_id));
  request.set_model(absl::GetFlag(FLAGS_model));
  LOCKSTEP_RETURN_IF_ERROR(FillSampling(request.mutable_sampling()));
  LOCKSTEP_RETURN_IF_ERROR(FillStop(stop_strings, request.mutable_stop()));
  v1::OutputOptions* const output = request.mutable_output();
  const auto logprobs = absl::GetFlag(FLAGS_logprobs);
  const auto prompt_logprobs = absl::GetFlag(FLAGS_prompt_logprobs);
  if ((logprobs.has_value() || prompt_logprobs.has_value()) && !absl::GetFlag(FLAGS_json)) {
    return InvalidArgument("--logprobs and --prompt-logprobs: expected with --json only");
  }
  if (logprobs.has_value()) output->set_logprobs(*logprobs);
  if (prompt_logprobs.has_value()) output->set_prompt_logprobs(*prompt_logprobs);
  output->set_skip_special_tokens(absl::GetFlag(FLAGS_skip_special_tokens));
  if (const auto v = absl::GetFlag(FLAGS_priority)) request.set_priority(*v);
  request.set_tenant(absl::GetFlag(FLAGS_tenant));
  request.set_cache_salt(absl::GetFlag(FLAGS_cache_salt));
  if (absl::GetFlag(FLAGS_bypass_prefix_cache)) request.set_bypass_prefix_cache(true);
  if (const auto v = absl::GetFlag(FLAGS_truncate_prompt_tokens))
    request.set_truncate_prompt_tokens(*v);
  return absl::OkStatus();
}

void AddMessage(std::string role, std::string content, v1::ChatPrompt* chat) {
  v1::ChatMessage* const message = chat->add_messages();
  message->set_role(std::move(role));
  message->set_content(std::move(content));
}

void StartChat(v1::ChatPrompt* chat) {
  chat->set_template_arguments_json(absl::GetFlag(FLAGS_template_arguments));
  chat->set_continue_final_message(absl::GetFlag(FLAGS_continue_final_message));
  if (const std::string system = absl::GetFlag(FLAGS_system); !system.empty()) {
    AddMessage("system", system, chat);
  }
}

absl::Status FillPrompt(const std::vector<std::string>& turns, v1::GenerateRequest& request) {
  const std::optional<std::string> prompt = absl::GetFlag(FLAGS_prompt);
  const std::string token_ids = absl::GetFlag(FLAGS_token_ids);
  if (prompt.has_value() + !token_ids.empty() + !turns.empty() != 1) {
    return InvalidArgument(
        "expected exactly one of --prompt, --token_ids, --chat, --interactive\n{}", kUsage);
  }
  if (prompt.has_value()) request.set_text(*prompt);
  if (!token_ids.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, ParseIds("token_ids", token_ids));
    request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  if (turns.empty()) {
    if (!absl::GetFlag(FLAGS_system).empty() || !absl::GetFlag(FLAGS_template_arguments).empty() ||
        absl::GetFlag(FLAGS_continue_final_message)) {
      return InvalidArgument(
          "--system, --template-arguments and --continue-final-message: expected with --chat or "
          "--interactive only");
    }
    return absl::OkStatus();
  }
  StartChat(request.mutable_chat());
  for (const std::string& turn : turns) {
    const size_t colon = turn.find(':');
    if (colon == 0 || colon == std::string::npos) {
      return InvalidArgument("--chat: expected ROLE:CONTENT, got \"{}\"", turn);
    }
    AddMessage(turn.substr(0, colon), turn.substr(colon + 1), request.mutable_chat());
  }
  return absl::OkStatus();
}

absl::StatusOr<GenerationClient::Options> ClientOptions() {
  GenerationClient::Options options;
  options.tls = {.ca_path = absl::GetFlag(FLAGS_tls_ca),
                 .cert_path = absl::GetFlag(FLAGS_tls_cert),
                 .key_path = absl::GetFlag(FLAGS_tls_key),
                 .server_name = absl::GetFlag(FLAGS_tls_server_name)};
  LOCKSTEP_RETURN_IF_ERROR(Annotate(options.tls.Validate(), "--tls_ca"));
  options.api_key = absl::GetFlag(FLAGS_api_key);
  if (options.api_key.starts_with('@')) {
    constexpr size_t kMaxKeyBytes = 4096;
    LOCKSTEP_ASSIGN_OR_RETURN(options.api_key,
                              ReadTextFile(options.api_key.substr(1), kMaxKeyBytes));
    while (!options.api_key.empty() && absl::ascii_isspace(options.api_key.back())) {
      options.api_key.pop_back();
    }
  }
  // Metadata that gRPC would abort the process for.
  for (const unsigned char c : options.api_key) {
    if (!absl::ascii_isgraph(c)) {
      return InvalidArgument("--api_key: expected one word of printable ASCII");
    }
  }
  return options;
}

void PrintError(const absl::Status& status) {
  std::fprintf(stderr, "lockstep-generate: %s: %s\n",
               absl::StatusCodeToString(status.code()).c_str(),
               WithoutControls(Message(status)).c_str());
}

// What a model or a server said, for stdout. On a terminal it cannot steer it. A file or another
// program gets it as it is.
std::string ForStdout(const std::string& text) {
  static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  return is_terminal ? WithoutControls(text) : text;
}

// False when there was nothing to print.
bool PrintDelta(const v1::GenerateResponse& response) {
  const std::string text = ForStdout(response.delta().text());
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return !text.empty();
}

void PrintOutputs(const Answer& answer) {
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    std::printf("[%zu] %s\n", i, ForStdout(answer.outputs[i].text).c_str());
  }
}

ExitCode RunOnce(GenerationClient& client, const v1::GenerateRequest& request) {
  const bool json = absl::GetFlag(FLAGS_json);
  const bool stream = !json && request.sampling().n() <= 1;
  bool printed = false;
  const absl::StatusOr<Answer> answer =
      client.Generate(request, absl::GetFlag(FLAGS_timeout), [&](const auto& response) {
        if (stream) printed = PrintDelta(response) || printed;
      });
  if (stream && (printed || answer.ok())) std::printf("\n");
  if (!answer.ok()) {
    std::fflush(stdout);
    PrintError(answer.status());
    return kFailed;
  }
  if (json) {
    std::string model = request.model();
    if (model.empty()) {
      if (const auto served = client.GetModel(absl::Seconds(5)); served.ok()) model = served->id();
    }
    std::printf("%s\n", ForStdout(answer->ToJson(model)).c_str());
  } else if (!stream) {
    PrintOutputs(*answer);
  }
  std::fflush(stdout);
  if (absl::GetFlag(FLAGS_stats)) std::fprintf(stderr, "%s\n", answer->StatsLine().c_str());
  return kDone;
}

ExitCode RunInteractive(GenerationClient& client, v1::GenerateRequest request) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  StartChat(request.mutable_chat());
  const v1::ChatPrompt start = request.chat();
  ExitCode code = kDone;
  for (;;) {
    if (terminal) std::printf("> ");
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/reset") {
      *request.mutable_chat() = start;
      continue;
    }
    AddMessage("user", line, request.mutable_chat());
    const absl::StatusOr<Answer> answer =
        client.Generate(request, absl::GetFlag(FLAGS_timeout), PrintDelta);
    std::printf("\n");
    std::fflush(stdout);
    if (!answer.ok()) {
      // The conversation goes on without the question that failed.
      PrintError(answer.status());
      request.mutable_chat()->mutable_messages()->RemoveLast();
      code = kFailed;
      continue;
    }
    code = kDone;
    AddMessage("assistant", answer->outputs[0].text, request.mutable_chat());
    std::fprintf(stderr, "(%s)\n", answer->StatsLine().c_str());
  }
  if (terminal) std::printf("\n");
  return code;
}

ExitCode Run(int argc, char** argv) {
  CommandLine command_line(argc, argv);
  const absl::StatusOr<std::vector<std::string>> turns = command_line.TakeRepeated("chat");
  const absl::StatusOr<std::vector<std::string>> stop_strings = command_line.TakeRepeated("stop");
  absl::Status usage = turns.ok() ? stop_strings.status() : turns.status();
  if (usage.ok()) usage = command_line.Parse(kUsage);
  const bool interactive = absl::GetFlag(FLAGS_interactive);
  v1::GenerateRequest request;
  if (usage.ok()) usage = FillRequest(*stop_strings, request);
  if (usage.ok() && !interactive) usage = FillPrompt(*turns, request);
  if (usage.ok() && interactive && request.sampling().n() > 1) {
    usage = absl::InvalidArgumentError("--n: a chat has one answer at a time");
  }
  absl::StatusOr<GenerationClient::Options> options = ClientOptions();
  if (usage.ok()) usage = options.status();
  if (!usage.ok()) {
    std::fprintf(stderr, "lockstep-generate: %s\n", Message(usage).c_str());
    return kUsageError;
  }
  GenerationClient client(absl::GetFlag(FLAGS_router), *options);
  if (const absl::Duration wait = absl::GetFlag(FLAGS_wait_seconds); wait > absl::ZeroDuration()) {
    if (const auto model = client.WaitUntilReady(wait); !model.ok()) {
      PrintError(model.status());
      return kNotReady;
    }
  }
  return interactive ? RunInteractive(client, std::move(request)) : RunOnce(client, request);
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) { return lockstep::router::Run(argc, argv); }
