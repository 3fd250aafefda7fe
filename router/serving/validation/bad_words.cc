#include "router/serving/validation/bad_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "common/status.h"
#include "router/serving/validation/field_checks.h"
#include "router/text/unicode/white_space.h"

namespace lockstep::router {
namespace {

absl::StatusOr<std::vector<TokenId>> EncodeWord(const Tokenizer& tokenizer, std::string_view word,
                                                const std::string& path) {
  auto ids = tokenizer.Encode(word, {.add_special_tokens = false, .parse_special_tokens = true});
  if (!ids.ok()) return Annotate(ids.status(), path);
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> BadWordTokens(
    const Tokenizer& tokenizer, const google::protobuf::RepeatedPtrField<std::string>& words) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < words.size(); ++i) {
    const std::string path = fmt::format("sampling.bad_words[{}]", i);
    const std::string_view word = TrimStart(words[i]);
    if (word.empty()) {
      return InvalidArgument("{}: expected a word, got {}", path, Quote(words[i]));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> plain, EncodeWord(tokenizer, word, path));
    if (plain.size() != 1) {
      return Unimplemented("{}: words of several tokens are not implemented, {} has {}", path,
                           Quote(words[i]), plain.size());
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TokenId> after_space,
                              EncodeWord(tokenizer, fmt::format(" {}", word), path));
    tokens.push_back(plain[0]);
    if (after_space.size() == 1) tokens.push_back(after_space[0]);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

absl::Status Forbid(const std::vector<TokenId>& tokens, SamplingParams& sampling) {
  if (tokens.empty()) return absl::OkStatus();
  const std::vector<TokenId>& allowed = sampling.allowed_token_ids;
  const auto is_masked = [&](TokenId token) {
    const std::vector<TokenId>& stops = sampling.stop_token_ids;
    return std::binary_search(tokens.begin(), tokens.end(), token) ||
           (sampling.min_new_tokens > 0 && std::binary_search(stops.begin(), stops.end(), token));
  };
  if (!allowed.empty() && std::all_of(allowed.begin(), allowed.end(), is_masked)) {
    return InvalidArgument(
        "sampling.bad_words: expected an id of allowed_token_ids that can still be sampled, got "
        "none");
  }
  // The lowest float. Such a token ranks behind all others, whatever its logit.
  std::map<TokenId, float> biases(sampling.logit_bias.begin(), sampling.logit_bias.end());
  for (const TokenId token : tokens) biases[token] = std::numeric_limits<float>::lowest();
  sampling.logit_bias.assign(biases.begin(), biases.end());
  return absl::OkStatus();
}

}  // namespace lockstep::router
