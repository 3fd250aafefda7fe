#include "router/calls/grammar/call_grammar.h"

#include <fmt/format.h>

#include <utility>

#include "common/json/json_text.h"
#include "common/status.h"
#include "router/calls/grammar/argument_rules.h"
#include "router/calls/grammar/lark_text.h"
#include "router/calls/output_format_table.h"

namespace lockstep::router {
namespace {

using Reasoning = CallGrammarOptions::Reasoning;

constexpr std::string_view kGapRule = "gap";           // between blocks
constexpr std::string_view kNumberRule = "number";     // of a call, in its id
constexpr std::string_view kCallIdRule = "call_id";    // of Mistral
constexpr std::string_view kCallRule = "call";         // one call
constexpr std::string_view kReasonRule = "reasoning";  // with its end

std::string Optional(std::string_view rule) { return std::string(rule) + "?"; }

// Writes one grammar.
class CallGrammarWriter {
 public:
  CallGrammarWriter(const OutputFormat& format, std::span<const CallableTool> tools,
                    const ToolList& known, const CallGrammarOptions& options,
                    const Tokenizer& tokenizer)
      : format_(format),
        tags_(format.tags),
        tools_(tools),
        known_(known),
        options_(options),
        tokenizer_(tokenizer) {}

  absl::StatusOr<std::string> Write() {
    const std::string reasoning = AddReasoning();
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string calls, AddCalls());
    LarkRules all;
    all.Add("start", Start(reasoning, calls));
    all.Add(kGapRule, R"(/\n{1,3}/)");
    all.Add(kLineRule, R"("\n")");
    if (all.text().size() + rules_.text().size() > kMaxCallGrammarBytes) return TooLarge();
    std::string grammar = all.text() + WithoutMarksOfOtherGrammars(rules_.text());
    if (grammar.size() > kMaxCallGrammarBytes) return TooLarge();
    return grammar;
  }

 private:
  static absl::Status TooLarge() {
    return InvalidArgument(": expected tools with a grammar of at most {} bytes",
                           kMaxCallGrammarBytes);
  }

  // New lines may stand before the first block and behind the last one, as templates write them.
  // An output of exactly one call ends with it.
  std::string Start(const std::string& reasoning, const std::string& calls) const {
    LarkSequence start = Sequence();
    const bool has_gaps = format_.style != CallStyle::kHarmony;
    const bool is_open = !reasoning.empty() && options_.reasoning == Reasoning::kOpen;
    if (has_gaps && !is_open) start.Rule(Optional(kGapRule));
    if (!reasoning.empty()) start.Rule(reasoning);
    start.Rule(calls);
    if (has_gaps && !options_.single) start.Rule(Optional(kGapRule));
    return start.Take();
  }

  // The engine takes "::=" for the mark of another kind of grammar. Only strings can have it here.
  static std::string WithoutMarksOfOtherGrammars(std::string_view text) {
    constexpr std::string_view kMark = "::=";
    std::string without;
    without.reserve(text.size());
    for (size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark)) {
      without += text.substr(0, at);
      without += "\\u003a:=";
      text.remove_prefix(at + kMark.size());
    }
    without += text;
    return without;
  }

  LarkSequence Sequence() const { return LarkSequence(tokenizer_); }

  // An expression for the reasoning before the calls. It spells no marker of calls: the parser
  // would find one in reasoning, too, if the client wants reasoning as content.
  std::string AddReasoning() {
    if (options_.reasoning == Reasoning::kNone || !HasReasoning(format_)) return "";
    const bool is_harmony = format_.style == CallStyle::kHarmony;
    const auto& frame = format_.frame;
    const std::string body = is_harmony ? LarkTextWithout({frame[0], frame[1], frame[2], frame[3],
                                                           frame[4], frame[5], frame[6]})
                                        : LarkTextWithout({format_.think_open, format_.think_end,
                                                           tags_.block_open, tags_.call_open});
    LarkSequence rest = Sequence();
    rest.Rule(rules_.AddTextUntil("THOUGHTS", body, format_.think_end, tokenizer_));
    if (is_harmony) {
      rest.Marker(frame[0]).Text("assistant");
    } else {
      rest.Rule(Optional(kGapRule));
    }
    const bool is_open = options_.reasoning == Reasoning::kOpen;
    const std::string ended = rest.Take();
    rules_.Add(kReasonRule,
               is_open ? ended : Sequence().Marker(format_.think_open).Rule(ended).Take());
    return is_open ? std::string(kReasonRule) : Optional(kReasonRule);
  }

  absl::StatusOr<std::string> AddCalls() {
    switch (format_.style) {
      case CallStyle::kJson:
        return AddJsonCalls();
      case CallStyle::kTagged:
        return AddTaggedCalls();
      case CallStyle::kJsonOrTagged:
        return WritesNames() ? AddTaggedCalls() : AddListedCalls();
      case CallStyle::kPython:
        return AddPythonCalls();
      case CallStyle::kHarmony:
        return AddMessage();
      case CallStyle::kNone:
        break;
    }
    return Unimplemented("this format has no calls");
  }

  // CallStyle::kJsonOrTagged: newer vocabularies have a token behind the name.
  bool WritesNames() const {
    const std::optional<TokenId> token = tokenizer_.FindToken(tags_.name_end);
    return token.has_value() && tokenizer_.IsSpecial(*token);
  }

  // Adds the rule kCallRule: one alternative for each tool. `write` gives the alternative.
  template <typename Write>
  absl::Status AddToolRules(const Write& write) {
    std::string alternatives;
    for (size_t i = 0; i < tools_.size(); ++i) {
      const ArgumentContext context{.format = format_,
                                    .tool = tools_[i],
                                    .number = i,
                                    .known = known_,
                                    .tokenizer = tokenizer_,
                                    .rules = rules_};
      const absl::StatusOr<std::string> call = write(context);
      // No single tool is at fault.
      if (rules_.text().size() > kMaxCallGrammarBytes) return TooLarge();
      if (!call.ok()) {
        return absl::Status(
            call.status().code(),
            fmt::format("[{}].function.parameters: {}", tools_[i].index, Message(call.status())));
      }
      const std::string rule = fmt::format("{}_{}", kCallRule, i);
      rules_.Add(rule, *call);
      alternatives += alternatives.empty() ? rule : " | " + rule;
    }
    rules_.Add(kCallRule, alternatives);
    return absl::OkStatus();
  }

  // {"name": "f", "arguments": {..}}
  absl::Status AddJsonToolRules() {
    return AddToolRules([&](const ArgumentContext& context) -> absl::StatusOr<std::string> {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments, AddJsonArguments(context));
      return Sequence()
          .Text(fmt::format(R"({{"name": "{}", "{}": )", context.tool.name, format_.arguments_key))
          .Rule(arguments)
          .Text("}")
          .Take();
    });
  }

  // One call, or several with `separator` between them. Both are expressions.
  std::string OneOrMore(const std::string& call, std::string_view separator) const {
    if (options_.single) return call;
    return fmt::format("{0} ({1} {0})*", call, separator);
  }

  absl::StatusOr<std::string> AddJsonCalls() {
    LOCKSTEP_RETURN_IF_ERROR(AddJsonToolRules());
    if (format_.whole_message.empty()) {
      rules_.Add("block", Sequence()
                              .Marker(tags_.block_open)
                              .Rule(Optional(kLineRule))
                              .Rule(kCallRule)
                              .Rule(Optional(kLineRule))
                              .Marker(tags_.block_end)
                              .Take());
      return OneOrMore("block", Optional(kGapRule));
    }
    return AddWholeMessage(OneOrMore(std::string(kCallRule), R"("; ")"));
  }

  // Calls as a whole message, or between the tags of a block.
  std::string AddWholeMessage(const std::string& calls) {
    rules_.Add("calls", calls);
    rules_.Add("block",
               Sequence().Marker(tags_.block_open).Rule("calls").Marker(tags_.block_end).Take());
    return "(calls | block)";
  }

  absl::StatusOr<std::string> AddListedCalls() {
    LOCKSTEP_RETURN_IF_ERROR(AddJsonToolRules());
    return Sequence()
        .Marker(tags_.call_open)
        .Text("[")
        .Rule(OneOrMore(std::string(kCallRule), R"(", ")"))
        .Text("]")
        .Take();
  }

  absl::StatusOr<std::string> AddTaggedCalls() {
    if (!tags_.name_cut.empty()) rules_.Add(kNumberRule, "/[0-9]{1,3}/");
    if (!tags_.id_open.empty()) {
      rules_.Add(kCallIdRule, Sequence().Marker(tags_.id_open).Rule("/[a-zA-Z0-9]{9}/").Take());
    }
    LOCKSTEP_RETURN_IF_ERROR(
        AddToolRules([&](const ArgumentContext& context) { return TaggedCall(context); }));
    if (tags_.block_open.empty()) return OneOrMore(std::string(kCallRule), Optional(kGapRule));
    rules_.Add("block", Sequence()
                            .Marker(tags_.block_open)
                            .Rule(Optional(kLineRule))
                            .Rule(OneOrMore(std::string(kCallRule), Optional(kLineRule)))
                            .Rule(Optional(kLineRule))
                            .Marker(tags_.block_end)
                            .Take());
    return OneOrMore("block", Optional(kGapRule));
  }

  absl::StatusOr<std::string> TaggedCall(const ArgumentContext& context) const {
    LarkSequence call = Sequence();
    call.Marker(tags_.call_open).Text(tags_.name_prefix).Text(context.tool.name);
    if (!tags_.name_cut.empty()) call.Text(tags_.name_cut).Rule(kNumberRule);
    if (!tags_.id_open.empty()) call.Rule(Optional(kCallIdRule));
    call.Marker(tags_.name_end);
    if (format_.arguments == ArgumentStyle::kParameters) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments, AddTaggedArguments(context));
      if (!arguments.empty()) call.Rule(arguments);
      call.Rule(Optional(kLineRule));
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments, AddJsonArguments(context));
      if (!tags_.fence_open.empty()) {
        call.Text("\n").Marker(tags_.fence_open).Text("\n").Rule(arguments);
        call.Text("\n").Marker(tags_.fence_end);
      } else {
        call.Rule(arguments);
      }
    }
    return call.Marker(tags_.call_end).Take();
  }

  absl::StatusOr<std::string> AddPythonCalls() {
    LOCKSTEP_RETURN_IF_ERROR(
        AddToolRules([&](const ArgumentContext& context) -> absl::StatusOr<std::string> {
          LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments, AddPythonArguments(context));
          LarkSequence call = Sequence();
          call.Text(context.tool.name).Text("(");
          if (!arguments.empty()) call.Rule(arguments);
          return call.Text(")").Take();
        }));
    return AddWholeMessage(
        Sequence().Text("[").Rule(OneOrMore(std::string(kCallRule), R"(", ")")).Text("]").Take());
  }

  // Harmony: one message. The token behind it ends the output, so there is never a second call.
  absl::StatusOr<std::string> AddMessage() {
    const auto& frame = format_.frame;
    LOCKSTEP_RETURN_IF_ERROR(
        AddToolRules([&](const ArgumentContext& context) -> absl::StatusOr<std::string> {
          LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments, AddJsonArguments(context));
          return Sequence()
              .Marker(frame[1])
              .Text(fmt::format("commentary to={}{} ", tags_.name_prefix, context.tool.name))
              .Marker(frame[2])
              .Text("json")
              .Marker(frame[3])
              .Rule(arguments)
              .Take();
        }));
    return std::string(kCallRule);
  }

  const OutputFormat& format_;
  const CallTags& tags_;
  const std::span<const CallableTool> tools_;
  const ToolList& known_;
  const CallGrammarOptions& options_;
  const Tokenizer& tokenizer_;
  LarkRules rules_;
};

}  // namespace

std::vector<CallableTool> CallableTools(std::string_view tools_json, std::string_view name) {
  std::vector<CallableTool> tools;
  const std::vector<std::string_view> texts = JsonTextsOfElements(tools_json);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string_view function = JsonTextOfMember(texts[i], "function");
    std::string own_name = DecodeJsonString(JsonTextOfMember(function, "name"));
    if (!name.empty() && own_name != name) continue;
    const std::string_view parameters = JsonTextOfMember(function, "parameters");
    tools.push_back({.index = i,
                     .name = std::move(own_name),
                     .parameters = std::string(parameters == "null" ? "" : parameters)});
  }
  return tools;
}

bool CanForceCalls(const OutputFormat& format) {
  return HasCalls(format) && format.arguments != ArgumentStyle::kGemma;
}

absl::StatusOr<std::string> CallGrammar(const OutputFormat& format,
                                        std::span<const CallableTool> tools, const ToolList& known,
                                        const CallGrammarOptions& options,
                                        const Tokenizer& tokenizer) {
  return CallGrammarWriter(format, tools, known, options, tokenizer).Write();
}

}  // namespace lockstep::router
