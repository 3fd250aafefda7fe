#include "tests/router/calls/output_cases.h"

#include "common/check.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object",
    "properties": {
      "city": {"type": "string"},
      "days": {"type": "integer"},
      "unit": {"enum": ["celsius", "fahrenheit"]},
      "options": {"type": "object"}}}}},
  {"type": "function", "function": {"name": "search", "parameters": {
    "type": "object",
    "properties": {
      "query": {"type": "string"},
      "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
      "tags": {"type": "array"},
      "exact": {"type": "boolean"},
      "id": {"type": ["string", "integer"]},
      "free": {}}}}},
  {"type": "function", "function": {"name": "now"}}
])";

bool IsText(OutputPart::Kind kind) {
  return kind == OutputPart::Kind::kContent || kind == OutputPart::Kind::kReasoning ||
         kind == OutputPart::Kind::kCallArguments;
}

Parts Joined(const Parts& parts) {
  Parts joined;
  for (const OutputPart& part : parts) {
    if (!joined.empty() && joined.back().kind == part.kind && IsText(part.kind)) {
      joined.back().text += part.text;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

}  // namespace

void PrintTo(const OutputCase& item, std::ostream* out) { *out << item.output; }

Parts Content(std::string text) { return {{OutputPart::Kind::kContent, std::move(text)}}; }
Parts Reasoning(std::string text) { return {{OutputPart::Kind::kReasoning, std::move(text)}}; }

Parts Call(std::string name, std::string arguments) {
  return {{OutputPart::Kind::kCallBegin, std::move(name)},
          {OutputPart::Kind::kCallArguments, std::move(arguments)},
          {OutputPart::Kind::kCallEnd, ""}};
}

Parts BrokenCall(std::string name, std::string arguments) {
  return {{OutputPart::Kind::kCallBegin, std::move(name)},
          {OutputPart::Kind::kCallArguments, std::move(arguments)},
          {OutputPart::Kind::kCallBroken, ""}};
}

Parts operator+(Parts a, const Parts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string_view CaseToolsJson() { return kTools; }

const ToolList& CaseTools() {
  static const auto* const tools = [] {
    auto parsed = ToolList::Parse(kTools);
    LOCKSTEP_CHECK(parsed.ok(), "{}", parsed.status().ToString());
    return new ToolList(*std::move(parsed));
  }();
  return *tools;
}

std::vector<OutputCase> AllCases() {
  std::vector<OutputCase> all;
  for (auto cases : {JsonCases(), TaggedCases(), NamedCases(), MessageCases(), ReasoningCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

Parsed Parse(const OutputFormat& format, std::span<const Piece> pieces,
             OutputParser::Options options, const ToolList& tools) {
  OutputParser parser(format, tools, options);
  Parts parts;
  for (const Piece& piece : pieces) parser.Push(piece.text, piece.special, parts);
  parser.Finish(parts);
  return {Joined(parts), parser.num_whole_calls(), parser.num_broken_calls()};
}

Parsed Parse(std::string_view format, std::string_view output, OutputParser::Options options,
             const ToolList& tools) {
  const auto found = FindOutputFormat(format);
  LOCKSTEP_CHECK(found.ok(), "{}", found.status().ToString());
  return Parse(**found, CutAt(output, {}), options, tools);
}

std::vector<Piece> CutAt(std::string_view text, std::initializer_list<size_t> offsets) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  for (const size_t offset : offsets) {
    pieces.push_back({std::string(text.substr(begin, offset - begin)), false});
    begin = offset;
  }
  pieces.push_back({std::string(text.substr(begin)), false});
  return pieces;
}

std::vector<Piece> EachByte(std::string_view text) {
  std::vector<Piece> pieces;
  for (const char c : text) pieces.push_back({std::string(1, c), false});
  return pieces;
}

std::string Describe(const Parts& parts) {
  std::string text;
  for (const OutputPart& part : parts) {
    constexpr const char* kKinds[] = {"content",   "reasoning", "begin",
                                      "arguments", "end",       "broken"};
    text += kKinds[static_cast<size_t>(part.kind)];
    text += " |" + part.text + "|\n";
  }
  return text;
}

}  // namespace lockstep::router
