#include "tests/rigs/simulation/trace.h"

#include <algorithm>
#include <utility>

#include "tests/rigs/simulation/text_model.h"

namespace lockstep::bench {
namespace {

// As an unloaded replica answers.
constexpr absl::Duration kFirstToken = absl::Milliseconds(200);
constexpr absl::Duration kPerToken = absl::Milliseconds(20);

}  // namespace

Trace::Trace(const TraceOptions& options)
    : options_(options),
      random_(options.seed),
      system_prompts_(options.num_system_prompts, options.system_prompt_skew),
      next_begin_(random_.Exponential(absl::Seconds(1) / options.conversations_per_s)) {}

std::optional<absl::Duration> Trace::NextAt() const {
  if (num_made_ == options_.num_requests) return std::nullopt;
  return going_on_.empty() ? next_begin_ : std::min(next_begin_, going_on_.top().next_at);
}

void Trace::AppendRandom(uint32_t num_tokens, std::vector<TokenId>& text) {
  for (uint32_t i = 0; i < num_tokens; ++i) {
    text.push_back(static_cast<TokenId>(random_.Bits() % kVocabularySize));
  }
}

Trace::Conversation Trace::Begin() {
  Conversation conversation{.next_at = next_begin_, .order = num_begun_++};
  next_begin_ += random_.Exponential(absl::Seconds(1) / options_.conversations_per_s);
  // The text of a system prompt is a function of its number.
  RandomDraws system_prompt(CombineHashes(options_.seed, system_prompts_.Draw(random_)));
  const uint32_t num_system_tokens = system_prompt.In(options_.system_tokens);
  for (uint32_t i = 0; i < num_system_tokens; ++i) {
    conversation.text.push_back(static_cast<TokenId>(system_prompt.Bits() % kVocabularySize));
  }
  AppendRandom(random_.In(options_.user_tokens), conversation.text);
  conversation.num_output_tokens = random_.In(options_.output_tokens);
  return conversation;
}

bool Trace::Continue(Conversation& conversation, const Turn& turn) {
  if (random_.Unit() * options_.mean_turns < 1) return false;
  conversation.next_at += kFirstToken + kPerToken * static_cast<int64_t>(turn.output.size()) +
                          random_.Exponential(options_.mean_think_time);
  conversation.text.insert(conversation.text.end(), turn.output.begin(), turn.output.end());
  AppendRandom(random_.In(options_.user_tokens), conversation.text);
  conversation.num_output_tokens = random_.In(options_.output_tokens);
  return conversation.text.size() + conversation.num_output_tokens <= options_.max_context_tokens;
}

Turn Trace::Next() {
  ++num_made_;
  Conversation conversation;
  if (going_on_.empty() || next_begin_ <= going_on_.top().next_at) {
    conversation = Begin();
  } else {
    conversation = going_on_.top();
    going_on_.pop();
  }
  Turn turn{.at = conversation.next_at,
            .conversation = conversation.order,
            .prompt = conversation.text,
            .output = {}};
  uint64_t text = HashOfPrompt(turn.prompt);
  for (uint32_t i = 0; i < conversation.num_output_tokens; ++i) {
    turn.output.push_back(TokenAfter(text));
    text = ExtendText(text, turn.output.back());
  }
  if (Continue(conversation, turn)) going_on_.push(std::move(conversation));
  return turn;
}

}  // namespace lockstep::bench
