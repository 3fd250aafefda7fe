#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "worker/steps/drafter.h"

// Drafters without a model, for tests.
namespace lockstep::testing {

// Drafts what followed the last token where it occurred before. It is the worked example of
// docs/adding/choosing-tokens.md.
class RepeatDrafter final : public worker::Drafter {
 public:
  void Draft(const worker::Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override {
    const std::vector<TokenId>& known = slot.known_tokens();
    for (size_t next = known.size() - 1; next > 0; --next) {
      if (known[next - 1] != known.back()) continue;
      const size_t end = std::min(known.size(), next + limit);
      drafts.assign(known.begin() + static_cast<ptrdiff_t>(next),
                    known.begin() + static_cast<ptrdiff_t>(end));
      return;
    }
  }
};

// Knows the whole text. With `right_in_ten` below 10 some of its drafts are of another token.
class ReplayDrafter final : public worker::Drafter {
 public:
  ReplayDrafter(std::vector<TokenId> text, uint32_t right_in_ten, uint32_t vocab_size)
      : text_(std::move(text)), right_in_ten_(right_in_ten), vocab_size_(vocab_size) {}

  void Draft(const worker::Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override {
    for (size_t i = slot.num_known(); i < text_.size() && drafts.size() < limit; ++i) {
      const bool right = random_() % 10 < right_in_ten_;
      drafts.push_back(right ? text_[i] : (text_[i] + 1) % vocab_size_);
    }
  }

 private:
  const std::vector<TokenId> text_;
  const uint32_t right_in_ten_;
  const uint32_t vocab_size_;
  std::mt19937_64 random_{1};
};

// Drafts what a function says.
class AnyDrafter final : public worker::Drafter {
 public:
  using Function = std::function<void(const worker::Slot&, uint32_t, std::vector<TokenId>&)>;
  explicit AnyDrafter(Function function) : function_(std::move(function)) {}
  void Draft(const worker::Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override {
    function_(slot, limit, drafts);
  }

 private:
  const Function function_;
};

}  // namespace lockstep::testing
