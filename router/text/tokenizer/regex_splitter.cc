#include "router/text/tokenizer/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr uint32_t kMaxMatchSteps = 1'000'000;  // for one piece, as PCRE2 counts them
constexpr size_t kFirstJitStackBytes = 32 * 1024;
constexpr size_t kMaxJitStackBytes = 4 << 20;
// White_Space, for inside and outside of a class: PCRE2's \s also takes U+180E.
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

// Null when memory is out.
MatchContext MakeLimits() {
  MatchContext context(pcre2_match_context_create(nullptr));
  if (context != nullptr) pcre2_set_match_limit(context.get(), kMaxMatchSteps);
  return context;
}

// Copies a pattern, checking every construct against the common subset and spelling \s and \d out.
class PatternTranslator {
 public:
  explicit PatternTranslator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (pos_ < in_.size()) LOCKSTEP_RETURN_IF_ERROR(Step());
    // Oniguruma also lets one character match these pairs when case is ignored.
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

  // General categories as they are. Longer names can only be scripts, which PCRE2 would read as
  // script extensions without the prefix.
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
    return InvalidArgument("unsupported {} \"{}\" at offset {} of the pattern", what,
                           in_.substr(pos_, count), pos_);
  }

  const std::string_view in_;
  size_t pos_ = 0;
  bool in_class_ = false;
  bool ignores_case_ = false;
  std::string out_;
};

class RegexSplitter final : public Splitter {
 public:
  RegexSplitter(std::unique_ptr<pcre2_code, CodeDeleter> code, MatchContext limits)
      : code_(std::move(code)), limits_(std::move(limits)) {}

  std::optional<size_t> PieceEnd(std::string_view text, size_t begin) const override {
    const std::unique_ptr<pcre2_match_data, MatchDataDeleter> data(
        pcre2_match_data_create(1, nullptr));
    if (data == nullptr) return std::nullopt;
    int result = Match(text, begin, data.get(), limits_.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = MatchWithOwnStack(text, begin, data.get());
    if (result == PCRE2_ERROR_NOMATCH) return text.size();
    if (result < 0) return std::nullopt;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.get());
    return offsets[0] > begin ? offsets[0] : offsets[1];
  }

 private:
  int Match(std::string_view text, size_t begin, pcre2_match_data* data,
            pcre2_match_context* context) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                       PCRE2_NO_UTF_CHECK, data, context);
  }
  int MatchWithOwnStack(std::string_view text, size_t begin, pcre2_match_data* data) const {
    const MatchContext context = MakeLimits();
    const std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack(
        pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr));
    if (context == nullptr || stack == nullptr) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    return Match(text, begin, data, context.get());
  }

  const std::unique_ptr<pcre2_code, CodeDeleter> code_;
  const MatchContext limits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Splitter>> MakeRegexSplitter(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("pattern of {} bytes, expected 1 to {}", pattern.size(),
                           kMaxPatternBytes);
  }
  absl::StatusOr<std::string> translated = PatternTranslator(pattern).Run();
  if (!translated.ok()) return translated.status();
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  std::unique_ptr<pcre2_code, CodeDeleter> code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &error_offset, nullptr));
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return InvalidArgument("pattern does not compile: {}",
                           reinterpret_cast<const char*>(message.data()));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) return InvalidArgument("pattern can match the empty string");
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower, not different
  MatchContext limits = MakeLimits();
  if (limits == nullptr) return ResourceExhausted("no memory for the pattern");
  return std::make_unique<RegexSplitter>(std::move(code), std::move(limits));
}

}  // namespace lockstep::router
