// Bytes of strangers -> GenerateRequest -> checks -> Request, and the prompt through the chat
// template. What passes the checks must hold what they promise.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "lockstep/v1/generation.pb.h"
#include "router/serving/calls/response_builder.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "router/serving/validation/bad_words.h"
#include "router/serving/validation/build_request.h"
#include "router/serving/validation/request_validator.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::ByteTokenizer;

constexpr uint32_t kContextTokens = 4096;

struct Fixture {
  ServedModel model =
      lockstep::testing::MakeByteModel(lockstep::testing::kChatMlTemplate, kContextTokens);
  PromptEncoder encoder{model};
  RequestLimits limits;
  ModelFacts facts;

  Fixture() {
    facts.id = model.id;
    facts.vocab_size = model.config.vocab_size;
    facts.max_context_tokens = kContextTokens;
    facts.has_chat_template = true;
    facts.parses_calls = true;
    facts.eos_token_ids = model.config.eos_token_ids;
    limits.max_prompt_bytes = 1 << 14;
  }
};

void CheckSamplingParams(const SamplingParams& sampling) {
  for (const float value :
       {sampling.temperature, sampling.top_p, sampling.min_p, sampling.presence_penalty,
        sampling.frequency_penalty, sampling.repetition_penalty}) {
    LOCKSTEP_CHECK(std::isfinite(value), "a value that passed is finite");
  }
  LOCKSTEP_CHECK(sampling.top_p > 0 && sampling.top_p <= 1, "top_p is {}", sampling.top_p);
  LOCKSTEP_CHECK(std::is_sorted(sampling.logit_bias.begin(), sampling.logit_bias.end()),
                 "sorted by id");
  for (const std::vector<TokenId>* const ids :
       {&sampling.allowed_token_ids, &sampling.stop_token_ids}) {
    LOCKSTEP_CHECK(std::is_sorted(ids->begin(), ids->end()), "ids are sorted");
    LOCKSTEP_CHECK(ids->empty() || ids->back() < ByteTokenizer::kVocabSize,
                   "ids are in the vocabulary");
  }
  LOCKSTEP_CHECK(sampling.min_new_tokens <= sampling.max_new_tokens && sampling.max_new_tokens > 0,
                 "min {} and max {} agree", sampling.min_new_tokens, sampling.max_new_tokens);
}

// A chat has as many special tokens as the template writes: two a message and one for the answer,
// or one less if the last message stays open.
void CheckNothingInjected(const lockstep::v1::ChatPrompt& chat, const std::vector<TokenId>& ids) {
  const bool asks = !chat.has_add_generation_prompt() || chat.add_generation_prompt();
  const int rest = chat.continue_final_message() ? -1 : asks ? 1 : 0;
  const int expected = 2 * chat.messages_size() + rest;
  const auto found = std::count_if(ids.begin(), ids.end(), [](TokenId id) { return id >= 256; });
  LOCKSTEP_CHECK(found == expected, "{} special tokens, {} expected", found, expected);
}

void Run(const Fixture& fixture, const lockstep::v1::GenerateRequest& wire) {
  if (!CheckRequest(wire, fixture.limits, fixture.facts).ok()) return;
  absl::StatusOr<std::vector<TokenId>> prompt = fixture.encoder.Encode(wire);
  if (!prompt.ok()) {
    LOCKSTEP_CHECK(prompt.status().code() == absl::StatusCode::kInvalidArgument, "{}",
                   Message(prompt.status()));
    return;
  }
  if (wire.has_chat()) CheckNothingInjected(wire.chat(), *prompt);
  RequestContext context;
  context.key = 1;
  context.made_up_id = "fuzz";
  auto forbidden = BadWordTokens(*fixture.model.tokenizer, wire.sampling().bad_words());
  if (!forbidden.ok()) return;
  context.forbidden_tokens = *std::move(forbidden);
  const absl::StatusOr<Request> request =
      BuildRequest(wire, *std::move(prompt), fixture.limits, fixture.facts, context);
  if (!request.ok()) return;
  const size_t num_prompt_tokens = request->prompt_tokens.size();
  LOCKSTEP_CHECK(num_prompt_tokens > 0, "a prompt has tokens");
  LOCKSTEP_CHECK(num_prompt_tokens + request->sampling.max_new_tokens <= kContextTokens,
                 "prompt and new tokens fit the context");
  LOCKSTEP_CHECK(request->num_samples >= 1 && request->num_samples <= fixture.limits.max_samples,
                 "n");
  CheckSamplingParams(request->sampling);
  TextOptions::Of(wire);
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lockstep::router::Fixture fixture;
  lockstep::v1::GenerateRequest wire;
  if (wire.ParseFromArray(data, static_cast<int>(size))) lockstep::router::Run(fixture, wire);
  return 0;
}
