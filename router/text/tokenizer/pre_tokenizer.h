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

// The steps that patterns may take on one text. A published pattern takes a few for each byte, but
// patterns exist that look at all that follows, again for each piece. The limit is proportional to
// the text, so that the time is, too. Used by one thread.
class PatternBudget {
 public:
  explicit PatternBudget(size_t num_text_bytes) : num_left_(kMin + kPerByte * num_text_bytes) {}

  // False: too few are left.
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

// One rule that cuts a text into pieces. Immutable, safe from any thread.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // The end of the piece that starts at `begin` < text.size(); > begin. `text` is valid UTF-8 and
  // `begin` the end of the piece before, or 0. nullopt when a pattern gave up on this text: the
  // budget is used up.
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
// \p{N} cut off, one by one or in runs.
std::unique_ptr<const Splitter> MakeDigitSplitter(bool individual_digits);

// The text of a published pattern, as it stands in tokenizer.json.
std::string_view PatternSource(KnownPattern pattern);
std::optional<KnownPattern> FindKnownPattern(std::string_view source);

// A cascade: every stage cuts the pieces of the stage before, each piece on its own.
class PreTokenizer {
 public:
  struct Stage {
    std::unique_ptr<const Splitter> splitter;  // null: leaves pieces whole
    bool add_prefix_space = false;             // in front of every piece that lacks one
  };
  explicit PreTokenizer(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  // Calls `sink` for every piece in order, as long as it returns true. Returns false when a pattern
  // gave up.
  bool Split(std::string_view text, absl::FunctionRef<bool(std::string_view)> sink) const;

 private:
  enum class Outcome { kDone, kStopped, kGaveUp };
  // What one call of Split shares.
  struct Run {
    absl::FunctionRef<bool(std::string_view)> sink;
    PatternBudget budget;
  };
  Outcome SplitFrom(size_t stage_index, std::string_view text, Run& run) const;

  std::vector<Stage> stages_;
};

}  // namespace lockstep::router
