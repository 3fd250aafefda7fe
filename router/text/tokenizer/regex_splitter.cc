#include "router/text/tokenizer/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "common/shown_text.h"
#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
// Most pieces are found within this window and this many steps, as PCRE2 counts them. Otherwise the
// next attempt has kGrowth times as many, and the budget pays for the failed one.
constexpr size_t kFirstWindowBytes = 256;
constexpr uint32_t kFirstMatchSteps = 4096;
constexpr size_t kGrowth = 4;
constexpr size_t kNumStepLevels = 8;  // the last one has 64 million
constexpr size_t kFirstJitStackBytes = 32 * 1024;
constexpr size_t kMaxJitStackBytes = 4 << 20;
// White_Space, usable inside and outside of a class: PCRE2's \s also takes U+180E.
constexpr std::string_view kSpaceItems = R"(\x{9}-\x{d}\x{20}\x{85}\p{Z})";

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct JitStackDeleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

using MatchContext = std::unique_ptr<pcre2_match_context, MatchContextDeleter>;

uint32_t StepsOf(size_t level) {
  uint32_t steps = kFirstMatchSteps;
  for (size_t i = 0; i < level; ++i) steps *= kGrowth;
  return steps;
}

// Null if there is no memory.
MatchContext MakeLimits(size_t level) {
  MatchContext context(pcre2_match_context_create(nullptr));
  if (context != nullptr) pcre2_set_match_limit(context.get(), StepsOf(level));
  return context;
}

// Copies a pattern, refuses constructs outside the common subset, and spells \s and \d out.
class PatternTranslator {
 public:
  explicit PatternTranslator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (pos_ < in_.size()) LOCKSTEP_RETURN_IF_ERROR(Step());
    // With ignored case, Oniguruma lets one character match each of these pairs.
    if (ignores_case_) {
      for (const std::string_view pair : {"ss", "ff", "fi", "fl", "st"}) {
        if (in_.find(pair) != std::string_view::npos) {
          return InvalidArgument("unsupported \"{}\" in a pattern with (?i:", pair);
        }
      }
    }
    return out_;
  }

 private:
  absl::Status Step() {
    const char c = in_[pos_];
    if (c == '\\') return Escape();
    if (in_class_) return ClassItem();
    if (c == '(') return Group();
    if (c == '[') {
      in_class_ = true;
      Copy(1);
      if (Peek(0) == '^') Copy(1);
      if (Peek(0) == ']' || Peek(0) == ':') return Refuse(1, "start of a class");
      return absl::OkStatus();
    }
    if (c == '^' || c == '$' || c == '.') return Refuse(1, "character outside a class");
    if (c == '}' && Peek(1) == '+') return Refuse(2, "quantifier");
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status ClassItem() {
    const char c = in_[pos_];
    if (c == '[') return Refuse(1, "nested class");
    if (c == '&' && Peek(1) == '&') return Refuse(2, "class intersection");
    if (c == ']') in_class_ = false;
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Group() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (in_.substr(pos_, opening.size()) == opening) {
        ignores_case_ = ignores_case_ || opening == "(?i:";
        Copy(opening.size());
        return absl::OkStatus();
      }
    }
    if (Peek(1) == '?' || Peek(1) == '*') return Refuse(3, "group");
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Escape() {
    const char c = Peek(1);
    if (c == 's' || c == 'd' || (c == 'S' && !in_class_)) {
      const std::string_view items = c == 'd' ? R"(\p{Nd})" : kSpaceItems;
      if (!in_class_) out_ += c == 'S' ? "[^" : "[";
      out_ += items;
      if (!in_class_) out_ += "]";
      pos_ += 2;
      return absl::OkStatus();
    }
    if (c == 'p' || c == 'P') return Property();
    const bool is_control = c == 'r' || c == 'n' || c == 't' || c == 'f';
    if (!is_control && (c == '\0' || !std::ispunct(static_cast<unsigned char>(c)))) {
      return Refuse(2, "escape");
    }
    Copy(2);
    return absl::OkStatus();
  }

  // Copies general categories unchanged. Longer names can only be scripts. Without the prefix,
  // PCRE2 would read them as script extensions.
  absl::Status Property() {
    const size_t close = in_.find('}', pos_);
    if (Peek(2) != '{' || close == std::string_view::npos) return Refuse(2, "property");
    const std::string_view name = in_.substr(pos_ + 3, close - pos_ - 3);
    for (const char c : name) {
      if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') {
        return Refuse(close + 1 - pos_, "property");
      }
    }
    out_ += in_.substr(pos_, 3);
    if (name.size() > 2) out_ += "sc:";
    out_ += name;
    out_ += '}';
    pos_ = close + 1;
    return absl::OkStatus();
  }

  char Peek(size_t ahead) const { return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0'; }
  void Copy(size_t count) {
    out_ += in_.substr(pos_, count);
    pos_ += count;
  }
  absl::Status Refuse(size_t count, std::string_view what) const {
    return InvalidArgument("unsupported {} {} at offset {} of the pattern", what,
                           Quote(in_.substr(pos_, count)), pos_);
  }

  const std::string_view in_;
  size_t pos_ = 0;
  bool in_class_ = false;
  bool ignores_case_ = false;
  std::string out_;
};

using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;
using Limits = std::array<MatchContext, kNumStepLevels>;

// A pattern sees the text only up to the end of a window, and PCRE2 says when it needs more
// (PCRE2_PARTIAL_HARD). So the splitter knows what each piece costs, and no piece can cost as much
// as the whole text again and again.
class RegexSplitter final : public Splitter {
 public:
  // `at`: the same pattern, anchored at the start of the search.
  RegexSplitter(Code search, Code at, Limits limits)
      : search_(std::move(search)), at_(std::move(at)), limits_(std::move(limits)) {}

  std::optional<size_t> PieceEnd(std::string_view text, size_t begin,
                                 PatternBudget& budget) const override {
    const MatchData data(pcre2_match_data_create(1, nullptr));
    if (data == nullptr) return std::nullopt;
    const PCRE2_SIZE* const offsets = pcre2_get_ovector_pointer(data.get());
    for (size_t start = begin; start < text.size();) {
      const std::string_view window = text.substr(0, WindowEnd(text, start, kFirstWindowBytes));
      int result = Match(*search_, text, window.size(), start, /*level=*/0, data.get());
      if (result == PCRE2_ERROR_NOMATCH) {
        start = window.size();
        continue;
      }
      if (result < 0) {
        const bool partial = result == PCRE2_ERROR_PARTIAL;
        if (partial) start = offsets[0];
        if (!budget.Spend(partial ? kFirstWindowBytes : kFirstMatchSteps)) return std::nullopt;
        result = MatchAt(text, start, budget, data.get());
        if (result == PCRE2_ERROR_NOMATCH) {
          start += DecodeUtf8(text, start).length;
          continue;
        }
        if (result < 0) return std::nullopt;
      }
      return offsets[0] > begin ? offsets[0] : offsets[1];
    }
    return text.size();
  }

 private:
  static size_t WindowEnd(std::string_view text, size_t start, size_t num_bytes) {
    if (text.size() - start <= num_bytes) return text.size();
    return PreviousCharOffset(text, start + num_bytes + 1);
  }

  // Matches at `start` only, with as much text and as many steps as needed. Returns PCRE2's result.
  // An error other than PCRE2_ERROR_NOMATCH means that the budget is used up.
  int MatchAt(std::string_view text, size_t start, PatternBudget& budget,
              pcre2_match_data* data) const {
    size_t num_window_bytes = kFirstWindowBytes;
    for (size_t level = 0;;) {
      const size_t end = WindowEnd(text, start, num_window_bytes);
      const int result = Match(*at_, text, end, start, level, data);
      if (result == PCRE2_ERROR_PARTIAL) {
        if (!budget.Spend(num_window_bytes)) return result;
        num_window_bytes *= kGrowth;
      } else if (result == PCRE2_ERROR_MATCHLIMIT) {
        if (!budget.Spend(StepsOf(level))) return result;
        ++level;
        if (level == kNumStepLevels) return result;
      } else {
        return result;
      }
    }
  }

  int Match(const pcre2_code& code, std::string_view text, size_t end, size_t start, size_t level,
            pcre2_match_data* data) const {
    const uint32_t options =
        PCRE2_NO_UTF_CHECK | (end < text.size() ? uint32_t{PCRE2_PARTIAL_HARD} : 0);
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const int result = pcre2_match(&code, subject, end, start, options, data, limits_[level].get());
    if (result != PCRE2_ERROR_JIT_STACKLIMIT) return result;
    const MatchContext context = MakeLimits(level);
    const std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack(
        pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr));
    if (context == nullptr || stack == nullptr) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    return pcre2_match(&code, subject, end, start, options, data, context.get());
  }

  const Code search_;
  const Code at_;
  const Limits limits_;
};

// `options`: in addition to the options of every pattern.
absl::StatusOr<Code> Compile(std::string_view pattern, uint32_t options) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &error,
                          &error_offset, nullptr));
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return InvalidArgument("pattern does not compile: {}",
                           reinterpret_cast<const char*>(message.data()));
  }
  // Without JIT, matching is slower but gives the same results.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Splitter>> MakeRegexSplitter(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("pattern of {} bytes, expected 1 to {}", pattern.size(),
                           kMaxPatternBytes);
  }
  absl::StatusOr<std::string> translated = PatternTranslator(pattern).Run();
  if (!translated.ok()) return translated.status();
  LOCKSTEP_ASSIGN_OR_RETURN(Code search, Compile(*translated, 0));
  LOCKSTEP_ASSIGN_OR_RETURN(Code at, Compile(*translated, PCRE2_ANCHORED));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(search.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) return InvalidArgument("pattern can match the empty string");
  Limits limits;
  for (size_t level = 0; level < limits.size(); ++level) {
    limits[level] = MakeLimits(level);
    if (limits[level] == nullptr) return ResourceExhausted("no memory for the pattern");
  }
  return std::make_unique<RegexSplitter>(std::move(search), std::move(at), std::move(limits));
}

}  // namespace lockstep::router
