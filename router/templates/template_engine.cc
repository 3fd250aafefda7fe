#include "router/templates/template_engine.h"

#include <array>
#include <minja/minja.hpp>
#include <optional>
#include <ostream>
#include <streambuf>
#include <utility>

#include "common/status.h"
#include "router/templates/template_builtins.h"
#include "router/templates/template_layout.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxExtraBytes = size_t{1} << 20;
constexpr int kMaxExtraDepth = 64;
constexpr size_t kMaxStackBytes = size_t{512} << 10;

// What this library always sets; extra arguments must not replace it.
constexpr std::array<std::string_view, 4> kOwnVariables = {"messages", "add_generation_prompt",
                                                           "bos_token", "eos_token"};

// Collects output up to a limit, then throws (through the stream, to Render).
class LimitedBuffer final : public std::streambuf {
 public:
  std::string Take() { return std::move(text_); }

 private:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    xsputn(&byte, 1);
    return c;
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    if (text_.size() + static_cast<size_t>(count) > kMaxRenderedBytes) {
      throw std::length_error(fmt::format("renders to more than {} bytes", kMaxRenderedBytes));
    }
    text_.append(bytes, static_cast<size_t>(count));
    return count;
  }

  std::string text_;
};

// The template's global variables. Every macro is looked up here, so this is where endless
// recursion is noticed: by the stack used since the object was made.
class GlobalContext final : public minja::Context {
 public:
  GlobalContext(minja::Value&& values, const std::shared_ptr<minja::Context>& parent)
      : Context(std::move(values), parent), stack_base_(StackPosition()) {}

  bool contains(const minja::Value& key) override {
    const uintptr_t here = StackPosition();
    if ((here > stack_base_ ? here - stack_base_ : stack_base_ - here) > kMaxStackBytes) {
      throw std::runtime_error("macros call each other too deeply");
    }
    const bool found = Context::contains(key);
    if (!found && key.is_string()) last_missing_ = key.get<std::string>();
    return found;
  }

  // The last name that was looked up in vain: the library calls what does not exist "null".
  const std::string& last_missing() const { return last_missing_; }

 private:
  [[gnu::noinline]] static uintptr_t StackPosition() {
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  }

  const uintptr_t stack_base_;
  std::string last_missing_;
};

// A macro holds the context that holds the macro; emptying the context frees both.
class ContextGuard {
 public:
  explicit ContextGuard(std::shared_ptr<minja::Context> context) : context_(std::move(context)) {}
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    for (const minja::Value& key : context_->keys()) context_->set(key, minja::Value());
  }

 private:
  const std::shared_ptr<minja::Context> context_;
};

// The library ends its messages with " at row 3, column 14:" and lines of the source, once for
// every expression that encloses the cause. The first stands for the innermost, and its line is
// kept. `missing` is the last name that was looked up in vain.
absl::Status ErrorFrom(std::string_view message, std::string_view missing) {
  constexpr std::string_view kWhere = " at row ";
  const size_t where = message.find(kWhere);
  std::string what(message.substr(0, where));
  if (what.ends_with("allable: null")) what = fmt::format("\"{}\" is not supported", missing);
  if (where == std::string_view::npos) return InvalidArgument("chat template: {}", what);
  const std::string_view line = message.substr(where + kWhere.size());
  return InvalidArgument("chat template, line {}: {}", line.substr(0, line.find(',')), what);
}

absl::StatusOr<json> ParseExtraArguments(const std::string& text) {
  if (text.empty()) return json::object();
  if (text.size() > kMaxExtraBytes) {
    return InvalidArgument("extra template arguments of {} bytes, expected at most {}", text.size(),
                           kMaxExtraBytes);
  }
  bool too_deep = false;
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxExtraDepth;
    return !too_deep;
  };
  json arguments = json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (too_deep) {
    return InvalidArgument("extra template arguments nest deeper than {}", kMaxExtraDepth);
  }
  if (!arguments.is_object()) {
    return InvalidArgument("extra template arguments are not a JSON object");
  }
  for (const std::string_view name : kOwnVariables) {
    if (arguments.contains(name)) {
      return InvalidArgument("extra template arguments must not set \"{}\"", name);
    }
  }
  return arguments;
}

absl::StatusOr<json> MessagesToJson(std::span<const ChatMessage> messages) {
  json list = json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    json message = json::object();
    for (const auto& [key, value] :
         {std::pair<const char*, const std::string*>{"role", &messages[i].role},
          {"content", &messages[i].content},
          {"name", &messages[i].name}}) {
      if (const std::optional<size_t> offset = FindInvalidUtf8(*value)) {
        return InvalidArgument("messages[{}].{} is not valid UTF-8 at byte {}", i, key, *offset);
      }
      if (value != &messages[i].name || !value->empty()) message[key] = *value;
    }
    list.push_back(std::move(message));
  }
  return list;
}

class MinjaTemplate final : public ChatTemplate {
 public:
  MinjaTemplate(std::shared_ptr<minja::TemplateNode> root, const TemplateSource& source)
      : root_(std::move(root)), bos_token_(source.bos_token), eos_token_(source.eos_token) {}

  absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                     const RenderOptions& options) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(json variables, ParseExtraArguments(options.extra_arguments_json));
    LOCKSTEP_ASSIGN_OR_RETURN(variables["messages"], MessagesToJson(messages));
    variables["add_generation_prompt"] = options.add_generation_prompt;
    variables["bos_token"] = bos_token_;
    variables["eos_token"] = eos_token_;
    const auto context =
        std::make_shared<GlobalContext>(minja::Value(variables), MakeTemplateBuiltins());
    try {
      const ContextGuard guard(context);
      LimitedBuffer buffer;
      std::ostringstream out;
      out.exceptions(std::ios::badbit);
      static_cast<std::ios&>(out).rdbuf(&buffer);
      root_->render(out, context);
      return buffer.Take();
    } catch (const std::exception& error) {
      return ErrorFrom(error.what(), context->last_missing());
    }
  }

 private:
  const std::shared_ptr<const minja::TemplateNode> root_;
  const std::string bos_token_;
  const std::string eos_token_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const ChatTemplate>> ParseTemplate(const TemplateSource& source) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string laid_out, LayOutTemplate(source.text));
  // The layout has carried out the white space control.
  const minja::Options options{
      .trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true};
  try {
    std::shared_ptr<minja::TemplateNode> root = minja::Parser::parse(laid_out, options);
    return std::make_unique<MinjaTemplate>(std::move(root), source);
  } catch (const std::exception& error) {
    return ErrorFrom(error.what(), "");
  }
}

}  // namespace lockstep::router
