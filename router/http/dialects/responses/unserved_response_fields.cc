#include "router/http/dialects/responses/unserved_response_fields.h"

#include <array>

namespace lockstep::router {
namespace {

constexpr auto kUnservedOfResponses = std::to_array<UnservedField>({
    // What other paths call it.
    {"messages", "[]", "belongs to /v1/chat/completions; this path takes input"},
    {"max_tokens", "[]", "belongs to /v1/chat/completions; this path takes max_output_tokens"},
    {"max_completion_tokens", "[]",
     "belongs to /v1/chat/completions; this path takes max_output_tokens"},
    {"logprobs", "[false]",
     "belongs to /v1/chat/completions; this path takes message.output_text.logprobs in include"},
    {"reasoning_effort", "[]", "belongs to /v1/chat/completions; this path takes reasoning.effort"},
    {"response_format", R"([{"type": "text"}])", "this path takes text.format"},
    {"structured_outputs", "[{}]", "this path takes text.format"},
    {"guided_json", "[]", "this path takes text.format"},
    {"guided_regex", R"([""])", "this path takes text.format"},
    {"guided_choice", "[[]]", "this path takes text.format"},
    {"guided_grammar", R"([""])", "this path takes text.format"},
    {"verbosity", R"(["medium"])"},
    // What is kept between requests.
    {"background", "[false]", "no answers are kept here, so none is made in the background"},
    {"conversation", "[]", "no conversations are kept here; send the whole of it in input"},
    {"prompt", "[]", "no prompts are kept here; send the text in instructions and input"},
    // What would change the input.
    {"truncation", R"(["disabled"])"},
    {"context_management", "[[]]"},
    {"chat_template"},
    {"documents", "[[]]"},
    // What the answer has no place for.
    {"n", "[1]"},
    {"best_of", "[1]"},
    {"echo", "[false]"},
    {"suffix", R"([""])"},
    {"prompt_logprobs"},
    {"return_token_ids", "[false]"},
    {"return_tokens_as_token_ids", "[false]"},
    {"functions", "[[]]"},
    {"function_call", R"(["none", "auto"])"},
    {"modalities", R"([["text"]])"},
    {"audio"},
    {"web_search_options"},
    // Reasoning.
    {"reasoning_budget"},
    {"enable_thinking"},
    {"thinking", R"([{"type": "disabled"}])"},
    {"thinking_budget"},
});

constexpr auto kUnservedOfText = std::to_array<UnservedField>({
    {"verbosity", R"(["medium"])"},
});

constexpr auto kIgnoredOfResponses = std::to_array<std::string_view>({
    "client_metadata",
});

}  // namespace

std::span<const UnservedField> UnservedOfResponses() { return kUnservedOfResponses; }
std::span<const UnservedField> UnservedOfText() { return kUnservedOfText; }
std::span<const std::string_view> IgnoredOfResponses() { return kIgnoredOfResponses; }

}  // namespace lockstep::router
