// lockstep-generate: asks a router, from the command line or as a chat.
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
#include "router/client/generate_flags.h"
#include "router/client/generation_client.h"

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

absl::Status FillSampling(const GenerateOptions& options, v1::SamplingParams* out) {
  if (const auto v = options.temperature) out->set_temperature(static_cast<float>(*v));
  if (const auto v = options.top_p) out->set_top_p(static_cast<float>(*v));
  if (const auto v = options.top_k) out->set_top_k(*v);
  if (const auto v = options.min_p) out->set_min_p(static_cast<float>(*v));
  if (const auto v = options.presence_penalty) {
    out->set_presence_penalty(static_cast<float>(*v));
  }
  if (const auto v = options.frequency_penalty) {
    out->set_frequency_penalty(static_cast<float>(*v));
  }
  if (const auto v = options.repetition_penalty) {
    out->set_repetition_penalty(static_cast<float>(*v));
  }
  if (const auto v = options.seed) out->set_seed(*v);
  if (const auto v = options.n) out->set_n(*v);
  LOCKSTEP_RETURN_IF_ERROR(AddLogitBias(options.logit_bias, out));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint32_t> allowed,
                            ParseIds("allowed_token_ids", options.allowed_token_ids));
  out->mutable_allowed_token_ids()->Add(allowed.begin(), allowed.end());
  for (const std::string& word : options.bad_words) out->add_bad_words(word);
  return absl::OkStatus();
}

absl::Status FillStop(const GenerateOptions& options, v1::StopCriteria* out) {
  if (const auto v = options.max_tokens) out->set_max_tokens(*v);
  if (const auto v = options.min_tokens) out->set_min_tokens(*v);
  for (const std::string& text : options.stop) out->add_stop(text);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids,
                            ParseIds("stop_token_ids", options.stop_token_ids));
  out->mutable_stop_token_ids()->Add(ids.begin(), ids.end());
  if (options.ignore_eos) out->set_ignore_eos(true);
  if (options.include_stop) out->set_include_stop(true);
  if (options.fit_max_tokens) out->set_fit_max_tokens(true);
  return absl::OkStatus();
}

// Everything but the prompt.
absl::Status FillRequest(const GenerateOptions& options, v1::GenerateRequest& request) {
  request.set_request_id(options.request_id);
  request.set_model(options.model);
  LOCKSTEP_RETURN_IF_ERROR(FillSampling(options, request.mutable_sampling()));
  LOCKSTEP_RETURN_IF_ERROR(FillStop(options, request.mutable_stop()));
  v1::OutputOptions* const output = request.mutable_output();
  if ((options.logprobs.has_value() || options.prompt_logprobs.has_value()) && !options.json) {
    return InvalidArgument("--logprobs and --prompt-logprobs: expected with --json only");
  }
  if (const auto v = options.logprobs) output->set_logprobs(*v);
  if (const auto v = options.prompt_logprobs) output->set_prompt_logprobs(*v);
  output->set_skip_special_tokens(options.skip_special_tokens);
  // Text is printed as it comes, with the markers of reasoning. JSON has a member for it.
  if (!options.json) output->set_split_reasoning(false);
  if (const auto v = options.priority) request.set_priority(*v);
  request.set_tenant(options.tenant);
  request.set_cache_salt(options.cache_salt);
  if (options.bypass_prefix_cache) request.set_bypass_prefix_cache(true);
  if (const auto v = options.truncate_prompt_tokens) request.set_truncate_prompt_tokens(*v);
  return absl::OkStatus();
}

void AddMessage(std::string role, std::string content, v1::ChatPrompt* chat) {
  v1::ChatMessage* const message = chat->add_messages();
  message->set_role(std::move(role));
  message->set_content(std::move(content));
}

void StartChat(const GenerateOptions& options, v1::ChatPrompt* chat) {
  chat->set_template_arguments_json(options.template_arguments);
  chat->set_continue_final_message(options.continue_final_message);
  if (!options.system.empty()) AddMessage("system", options.system, chat);
}

absl::Status FillPrompt(const GenerateOptions& options, v1::GenerateRequest& request) {
  const std::optional<std::string>& prompt = options.prompt;
  const std::string& token_ids = options.token_ids;
  const std::vector<std::string>& turns = options.chat;
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
    if (!options.system.empty() || !options.template_arguments.empty() ||
        options.continue_final_message) {
      return InvalidArgument(
          "--system, --template-arguments and --continue-final-message: expected with --chat or "
          "--interactive only");
    }
    return absl::OkStatus();
  }
  StartChat(options, request.mutable_chat());
  for (const std::string& turn : turns) {
    const size_t colon = turn.find(':');
    if (colon == 0 || colon == std::string::npos) {
      return InvalidArgument("--chat: expected ROLE:CONTENT, got \"{}\"", turn);
    }
    AddMessage(turn.substr(0, colon), turn.substr(colon + 1), request.mutable_chat());
  }
  return absl::OkStatus();
}

absl::StatusOr<GenerationClient::Options> ClientOptions(const GenerateOptions& options) {
  GenerationClient::Options client;
  client.tls = options.tls;
  LOCKSTEP_RETURN_IF_ERROR(Annotate(client.tls.Validate(), "--tls_ca"));
  client.api_key = options.api_key;
  if (client.api_key.starts_with('@')) {
    constexpr size_t kMaxKeyBytes = 4096;
    LOCKSTEP_ASSIGN_OR_RETURN(client.api_key, ReadTextFile(client.api_key.substr(1), kMaxKeyBytes));
    while (!client.api_key.empty() && absl::ascii_isspace(client.api_key.back())) {
      client.api_key.pop_back();
    }
  }
  // gRPC would abort the process for other bytes.
  for (const unsigned char c : client.api_key) {
    if (!absl::ascii_isgraph(c)) {
      return InvalidArgument("--api_key: expected one word of printable ASCII");
    }
  }
  return client;
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

void PrintCalls(const AnswerOutput& output) {
  std::fputs(ForStdout(output.CallLines()).c_str(), stdout);
}

// Then no line of text comes before the calls.
bool HasOnlyCalls(const absl::StatusOr<Answer>& answer) {
  return answer.ok() && answer->outputs[0].text.empty() && !answer->outputs[0].tool_calls.empty();
}

void PrintOutputs(const Answer& answer) {
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    std::printf("[%zu] %s\n", i, ForStdout(answer.outputs[i].text).c_str());
    PrintCalls(answer.outputs[i]);
  }
}

ExitCode RunOnce(const GenerateOptions& options, GenerationClient& client,
                 const v1::GenerateRequest& request) {
  const bool stream = !options.json && request.sampling().n() <= 1;
  bool printed = false;
  const absl::StatusOr<Answer> answer =
      client.Generate(request, options.timeout, [&](const auto& response) {
        if (stream) printed = PrintDelta(response) || printed;
      });
  if (stream && (printed || answer.ok()) && !HasOnlyCalls(answer)) std::printf("\n");
  if (!answer.ok()) {
    std::fflush(stdout);
    PrintError(answer.status());
    return kFailed;
  }
  if (options.json) {
    std::string model = request.model();
    if (model.empty()) {
      if (const auto served = client.GetModel(absl::Seconds(5)); served.ok()) model = served->id();
    }
    std::printf("%s\n", ForStdout(answer->ToJson(model)).c_str());
  } else if (!stream) {
    PrintOutputs(*answer);
  } else {
    PrintCalls(answer->outputs[0]);
  }
  std::fflush(stdout);
  if (options.stats) std::fprintf(stderr, "%s\n", answer->StatsLine().c_str());
  return kDone;
}

ExitCode RunInteractive(const GenerateOptions& options, GenerationClient& client,
                        v1::GenerateRequest request) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  StartChat(options, request.mutable_chat());
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
    const absl::StatusOr<Answer> answer = client.Generate(request, options.timeout, PrintDelta);
    if (!HasOnlyCalls(answer)) std::printf("\n");
    std::fflush(stdout);
    if (!answer.ok()) {
      // The conversation goes on without the question that failed.
      PrintError(answer.status());
      request.mutable_chat()->mutable_messages()->RemoveLast();
      code = kFailed;
      continue;
    }
    code = kDone;
    PrintCalls(answer->outputs[0]);
    std::fflush(stdout);
    AddMessage("assistant", answer->outputs[0].text, request.mutable_chat());
    std::fprintf(stderr, "(%s)\n", answer->StatsLine().c_str());
  }
  if (terminal) std::printf("\n");
  return code;
}

ExitCode Run(int argc, char** argv) {
  GenerateOptions options;
  FlagTable flags = GenerateFlags(options);
  absl::Status usage = ParseCommandLine(argc, argv, kUsage, flags);
  v1::GenerateRequest request;
  if (usage.ok()) usage = FillRequest(options, request);
  if (usage.ok() && !options.interactive) usage = FillPrompt(options, request);
  if (usage.ok() && options.interactive && request.sampling().n() > 1) {
    usage = absl::InvalidArgumentError("--n: a chat has one answer at a time");
  }
  const absl::StatusOr<GenerationClient::Options> client_options = ClientOptions(options);
  if (usage.ok()) usage = client_options.status();
  if (!usage.ok()) {
    std::fprintf(stderr, "lockstep-generate: %s\n", Message(usage).c_str());
    return kUsageError;
  }
  GenerationClient client(options.router, *client_options);
  if (options.wait > absl::ZeroDuration()) {
    if (const auto model = client.WaitUntilReady(options.wait); !model.ok()) {
      PrintError(model.status());
      return kNotReady;
    }
  }
  return options.interactive ? RunInteractive(options, client, std::move(request))
                             : RunOnce(options, client, request);
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) { return lockstep::router::Run(argc, argv); }
