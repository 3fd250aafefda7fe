#include "router/client/generate_flags.h"

namespace lockstep::router {
namespace {

FlagGroup ConnectionFlags(GenerateOptions& options) {
  return {"Router",
          {
              {"router", &options.router, "host:port of the router"},
              {"api-key", &options.api_key,
               "the key that the router asks for; @FILE reads it from a file, where other users "
               "cannot see it"},
              {"tls-ca", &options.tls.ca_path,
               "PEM certificates of the authorities of the router; empty: plaintext"},
              {"tls-cert", &options.tls.cert_path, "PEM certificate that the router may ask for"},
              {"tls-key", &options.tls.key_path, "PEM key of --tls-cert"},
              {"tls-server-name", &options.tls.server_name,
               "the name in the router's certificate; empty: the host of --router"},
              {"wait-seconds", &options.wait, "wait this long for the router and its worker"},
              {"timeout", &options.timeout, "deadline of a request"},
          }};
}

FlagGroup PromptFlags(GenerateOptions& options) {
  return {"Prompt",
          {
              {"prompt", &options.prompt, "a text to continue"},
              {"token-ids", &options.token_ids, "a prompt as token ids: 1,2,3"},
              {"chat", RepeatedText{&options.chat},
               "ROLE:CONTENT, a message of a conversation to answer; repeatable"},
              {"system", &options.system, "a system message in front of --chat or --interactive"},
              {"interactive", &options.interactive,
               "chat: each line is a message, Ctrl-D ends the chat, /reset starts over"},
              {"continue-final-message", &options.continue_final_message,
               "the output continues the last message of --chat"},
              {"template-arguments", &options.template_arguments,
               "variables for the chat template, one JSON object"},
              {"truncate-prompt-tokens", &options.truncate_prompt_tokens,
               "keep only the last tokens of the prompt"},
          }};
}

FlagGroup SamplingFlags(GenerateOptions& options) {
  return {"Sampling",
          {
              {"temperature", &options.temperature, "0 is greedy"},
              {"top-p", &options.top_p, "above 0, to 1"},
              {"top-k", &options.top_k, "0 is off"},
              {"min-p", &options.min_p, "0 to 1"},
              {"presence-penalty", &options.presence_penalty, "-2 to 2"},
              {"frequency-penalty", &options.frequency_penalty, "-2 to 2"},
              {"repetition-penalty", &options.repetition_penalty, "above 0, to 10"},
              {"seed", &options.seed, "of the draws; without it, the router draws one"},
              {"n", &options.n, "number of outputs"},
              {"logit-bias", &options.logit_bias, "id:bias,id:bias"},
              {"allowed-token-ids", &options.allowed_token_ids, "only these ids: 1,2,3"},
              {"bad-words", &options.bad_words, "words of one token each that never come: a,b"},
          }};
}

FlagGroup StopFlags(GenerateOptions& options) {
  return {"End of an output",
          {
              {"max-tokens", &options.max_tokens, "limit for each output"},
              {"min-tokens", &options.min_tokens,
               "ids that end an output are masked until it has this many tokens"},
              {"stop", RepeatedText{&options.stop}, "a text that ends an output; repeatable"},
              {"stop-token-ids", &options.stop_token_ids, "ids that end an output: 1,2,3"},
              {"ignore-eos", &options.ignore_eos, "the model's end ids do not end an output"},
              {"include-stop", &options.include_stop, "keep the stop string in the text"},
              {"fit-max-tokens", &options.fit_max_tokens,
               "a --max-tokens that the context has no room for is lowered, not refused"},
          }};
}

FlagGroup OutputFlags(GenerateOptions& options) {
  return {"Output",
          {
              {"logprobs", &options.logprobs,
               "log-probabilities of the chosen token and this many best ones; with --json"},
              {"prompt-logprobs", &options.prompt_logprobs, "the same for the prompt; with --json"},
              {"skip-special-tokens", &options.skip_special_tokens,
               "leave special tokens out of the text"},
              {"json", &options.json, "print one JSON object at the end"},
              {"stats", &options.stats, "print rates to stderr"},
          }};
}

FlagGroup RequestFlags(GenerateOptions& options) {
  return {
      "Request",
      {
          {"model", &options.model, "the model's name; empty: the model that the router serves"},
          {"request-id", &options.request_id, "the request's id; empty: the router makes one"},
          {"priority", &options.priority, "lower runs earlier"},
          {"tenant", &options.tenant, "fairness id"},
          {"cache-salt", &options.cache_salt,
           "requests share prefixes only if their salts are equal"},
          {"bypass-prefix-cache", &options.bypass_prefix_cache, "compute the whole prompt"},
      }};
}

}  // namespace

FlagTable GenerateFlags(GenerateOptions& options) {
  return {ConnectionFlags(options), PromptFlags(options), SamplingFlags(options),
          StopFlags(options),       OutputFlags(options), RequestFlags(options)};
}

}  // namespace lockstep::router
