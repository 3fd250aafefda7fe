#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "common/ids.h"
#include "tests/rigs/random_draws.h"

namespace lockstep::bench {

// Conversations of one tenant. Each begins with a system prompt drawn by Zipf's law; a turn's
// prompt is everything said before and what the user adds.
struct TraceOptions {
  std::string tenant = "a";
  uint64_t seed = 1;
  uint32_t num_requests = 1000;
  double conversations_per_s = 1;  // Poisson
  uint32_t num_system_prompts = 64;
  double system_prompt_skew = 1;
  Range system_tokens = {256, 1024};
  Range user_tokens = {32, 256};
  Range output_tokens = {32, 128};
  double mean_turns = 3;  // geometric
  absl::Duration mean_think_time = absl::Seconds(10);
  uint32_t max_context_tokens = 8192;  // a conversation ends before it would be longer
};

// One request.
struct Turn {
  absl::Duration at;          // since the start
  uint64_t conversation = 0;  // its number in the trace
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;  // what must come out
};

// Makes the requests one by one, in order of time, from nothing but the options. When they come
// does not depend on who answers them and how fast: the user of the next turn is taken to read the
// answer as it would come from an unloaded replica. Holds the conversations that go on.
class Trace {
 public:
  explicit Trace(const TraceOptions& options);

  // When the next request comes; nullopt when there is none left.
  std::optional<absl::Duration> NextAt() const;
  Turn Next();

 private:
  struct Conversation {
    absl::Duration next_at;
    uint64_t order = 0;
    std::vector<TokenId> text = {};  // the next turn's prompt
    uint32_t num_output_tokens = 0;
  };
  struct Later {
    bool operator()(const Conversation& a, const Conversation& b) const {
      return a.next_at != b.next_at ? a.next_at > b.next_at : a.order > b.order;
    }
  };

  Conversation Begin();
  // False: the conversation is over.
  bool Continue(Conversation& conversation, const Turn& turn);
  void AppendRandom(uint32_t num_tokens, std::vector<TokenId>& text);

  const TraceOptions options_;
  RandomDraws random_;
  const Zipf system_prompts_;
  uint32_t num_made_ = 0;
  uint64_t num_begun_ = 0;
  absl::Duration next_begin_;
  std::priority_queue<Conversation, std::vector<Conversation>, Later> going_on_;
};

}  // namespace lockstep::bench
