#include "router/http/dialects/openai/body/unserved_fields.h"

#include <array>

namespace lockstep::router {
namespace {

constexpr auto kEveryRequest = std::to_array<UnservedField>({
    // Constraints that others spell differently (constraint_fields.h).
    {"structural_tag"},
    {"guided_whitespace_pattern"},
    {"json_schema", "[{}]"},
    {"regex", R"([""])"},
    {"ebnf", R"([""])"},
    {"grammar", R"([""])"},
    {"grammar_lazy", "[false]"},
    // Samplers.
    {"samplers"},
    {"do_sample", "[true]"},
    {"use_beam_search", "[false]"},
    {"num_beams", "[1]"},
    {"length_penalty", "[1]"},
    {"early_stopping", "[false]"},
    {"repeat_penalty", "[1]"},
    {"repeat_last_n", "[-1]"},
    {"penalize_nl", "[false]"},
    {"penalty_prompt"},
    {"no_repeat_ngram_size", "[0]"},
    {"repetition_detection"},
    {"min_keep", "[0]"},
    {"typical_p", "[1]"},
    {"tfs_z", "[1]"},
    {"top_a", "[0]"},
    {"top_n_sigma", "[-1, 0]"},
    {"dynatemp_range", "[0]"},
    {"mirostat", "[0]"},
    {"dry_multiplier", "[0]"},
    {"xtc_probability", "[0]"},
    {"adaptive_target", "[-1]"},
    {"epsilon_cutoff", "[0]"},
    {"eta_cutoff", "[0]"},
    {"smoothing_factor", "[0]"},
    {"logits_processors", "[[]]"},
    {"custom_logit_processor", R"([""])"},
    {"custom_params", "[{}]"},
    {"watermark", "[false]"},
    // End and length of the output.
    {"n_predict", "[-1]"},
    {"max_new_tokens"},
    {"max_length"},
    {"min_new_tokens", "[0]"},
    {"min_length", "[0]"},
    {"t_max_predict_ms", "[0]"},
    {"n_indent", "[0]"},
    {"stop_regex", "[[]]"},
    {"no_stop_trim", "[false]"},
    {"stop_sequences", "[[]]"},
    {"truncation_side", R"(["left"])"},
    // Inputs and weights.
    {"prompt_embeds"},
    {"input_embeds"},
    {"input_ids"},
    {"lora", "[[]]"},
    {"lora_path"},
    {"lora_request"},
    {"adapter_id"},
    {"multi_modal_data", "[{}]"},
    {"image_data", "[[]]"},
    {"mm_processor_kwargs", "[{}]"},
    {"media_io_kwargs", "[{}]"},
    {"kv_transfer_params", "[{}]"},
    {"vllm_xargs", "[{}]"},
    {"thinking_token_budget"},
    // Content of the answer.
    {"n_probs", "[0]"},
    {"logprob_token_ids", "[[]]"},
    {"post_sampling_probs", "[false]"},
    {"return_hidden_states", "[false]"},
    {"detokenize", "[true]"},
});

constexpr auto kCompletions = std::to_array<UnservedField>({
    {"messages", "[]", "belongs to /v1/chat/completions; this path takes prompt"},
    {"max_completion_tokens", "[]", "belongs to /v1/chat/completions; this path takes max_tokens"},
    {"max_output_tokens", "[]", "belongs to /v1/responses; this path takes max_tokens"},
    {"suffix", R"([""])"},
    {"input_prefix", R"([""])"},
    {"input_suffix", R"([""])"},
    {"input_extra", "[[]]"},
    {"add_special_tokens", "[true]"},
});

constexpr auto kChats = std::to_array<UnservedField>({
    {"prompt", "[]", "belongs to /v1/completions; this path takes messages"},
    {"max_output_tokens", "[]", "belongs to /v1/responses; this path takes max_completion_tokens"},
    {"functions", "[[]]"},
    {"function_call", R"(["none", "auto"])"},
    {"modalities", R"([["text"]])"},
    {"audio"},
    {"web_search_options"},
    {"reasoning_budget"},
    {"thinking_budget"},
    {"verbosity", R"(["medium"])"},
    {"chat_template"},
    {"chat_template_id"},
    {"documents", "[[]]"},
    {"echo", "[false]"},
    {"suffix", R"([""])"},
    {"add_special_tokens", "[false]"},
    {"parse_special", "[false]"},
});

constexpr auto kMessages = std::to_array<UnservedField>({
    {"function_call"},
    {"audio"},
    {"tools", "[[]]"},
    {"thinking", R"([""])"},
    {"prefix", "[false]"},
});

constexpr auto kIgnored = std::to_array<std::string_view>({
    "user",
    "metadata",
    "store",
    "service_tier",
    "prediction",
    "safety_identifier",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "cache_prompt",
    "id_slot",
    "n_keep",
    "n_discard",
    "stream_interval",
    "guided_decoding_backend",
    "spaces_between_special_tokens",
    "parallel_tool_calls",
    "dynatemp_exponent",
    "mirostat_tau",
    "mirostat_eta",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "xtc_threshold",
    "adaptive_decay",
    "smoothing_curve",
});

}  // namespace

std::span<const UnservedField> UnservedOfEveryRequest() { return kEveryRequest; }
std::span<const UnservedField> UnservedOfCompletions() { return kCompletions; }
std::span<const UnservedField> UnservedOfChats() { return kChats; }
std::span<const UnservedField> UnservedOfMessages() { return kMessages; }
std::span<const std::string_view> IgnoredOfEveryRequest() { return kIgnored; }

}  // namespace lockstep::router
