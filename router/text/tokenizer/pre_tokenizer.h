#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::router {

// The steps that patterns may take on one text. A published pattern takes a few for each byte. But
// some patterns look at all following text, again for each piece. The limit is proportional to the
// text, so the time is too. Used by one thread.
class PatternBudget {
 public:
  explicit PatternBudget(size_t num_text_bytes) : num_left_(kMin + kPerByte * num_text_bytes) {}

  // False if too few steps are left.
  bool Spend(size_t num_steps) {
    if (num_steps > num_left_) return false;
    num_left_ -= num_steps;
    return true;
  }

 private:
  static constexpr size_t kMin = size_t{16} << 20;  // some tenths of a second at most
  static constexpr size_t kPerByte = 16;

  size_t num_left_;
};

// One rule that cuts a text into pieces. Immutable. Safe to use from any thread.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // Returns the end, above `begin`, of the piece that starts at `begin` < text.size(). `text` is
  // valid UTF-8. `begin` is 0 or the end of the previous piece. nullopt if the budget is used up.
  virtual std::optional<size_t> PieceEnd(std::string_view text, size_t begin,
                                         PatternBudget& budget) const = 0;
};

// The published patterns, scanned by hand.
enum class KnownPattern : uint8_t {
  kGpt2,
  kLlama3,
  kQwen2,
};

std::unique_ptr<const Splitter> MakeKnownSplitter(KnownPattern pattern);
// Cuts off \p{N}, one by one or in runs.
std::unique_ptr<const Splitter> MakeDigitSplitter(bool individual_digits);

// The text of a published pattern, as in tokenizer.json.
std::string_view PatternSource(KnownPattern pattern);
std::optional<KnownPattern> FindKnownPattern(std::string_view source);

// A cascade: every stage cuts each piece of the previous stage on its own.
class PreTokenizer {
 public:
  struct Stage {
    std::unique_ptr<const Splitter> splitter;  // null: leaves pieces whole
    bool add_prefix_space = false;             // before every piece without one
  };
  explicit PreTokenizer(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  // Calls `sink` for every piece in order, until it returns false. Returns false if a pattern used
  // up its budget.
  bool Split(std::string_view text, absl::FunctionRef<bool(std::string_view)> sink) const;

 private:
  enum class Outcome { kDone, kStopped, kGaveUp };
  // Shared state of one call of Split.
  struct Run {
    absl::FunctionRef<bool(std::string_view)> sink;
    PatternBudget budget;
  };
  Outcome SplitFrom(size_t stage_index, std::string_view text, Run& run) const;

  std::vector<Stage> stages_;
};

}  // namespace lockstep::router
