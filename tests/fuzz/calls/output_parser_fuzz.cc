// An output of a model from anywhere: a byte that picks the format, a byte of options, four sizes
// of pieces, and the output. However it is cut, its parts are the same. Whole calls have arguments
// that are a JSON object, and all text is UTF-8.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "router/calls/output_format_table.h"
#include "router/calls/output_parser.h"
#include "router/calls/scanners/json_text_scanner.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr size_t kNumSizes = 4;
constexpr size_t kHeaderBytes = 2 + kNumSizes;

const ToolList& Tools() {
  static const ToolList tools = *ToolList::Parse(
      R"([{"type": "function", "function": {"name": "now", "parameters": {"properties": {
           "s": {"type": "string"}, "i": {"type": "integer"}, "u": {"type": ["string", "null"]}}}}},
          {"type": "function", "function": {"name": "f"}}])");
  return tools;
}

bool IsJoined(OutputPart::Kind kind) {
  return kind == OutputPart::Kind::kContent || kind == OutputPart::Kind::kReasoning ||
         kind == OutputPart::Kind::kCallArguments;
}

// The parts, joined, if the output comes in pieces of these sizes, in turn.
std::vector<OutputPart> Parse(const OutputFormat& format, OutputParser::Options options,
                              std::string_view output, std::array<size_t, kNumSizes> sizes) {
  OutputParser parser(format, Tools(), options);
  std::vector<OutputPart> parts;
  for (size_t begin = 0, i = 0; begin < output.size(); ++i) {
    const size_t size = sizes[i % kNumSizes];
    parser.Push(output.substr(begin, size), false, parts);
    begin += size;
  }
  parser.Finish(parts);
  std::vector<OutputPart> joined;
  for (OutputPart& part : parts) {
    if (!joined.empty() && joined.back().kind == part.kind && IsJoined(part.kind)) {
      joined.back().text += part.text;
    } else {
      joined.push_back(std::move(part));
    }
  }
  return joined;
}

void CheckParts(const std::vector<OutputPart>& parts) {
  std::string_view arguments;
  bool in_call = false;
  for (const OutputPart& part : parts) {
    LOCKSTEP_CHECK(!FindInvalidUtf8(part.text), "a part is no UTF-8");
    switch (part.kind) {
      case OutputPart::Kind::kCallBegin:
        LOCKSTEP_CHECK(!in_call && !part.text.empty(), "a call without a name or in a call");
        in_call = true;
        arguments = {};
        break;
      case OutputPart::Kind::kCallArguments:
        arguments = part.text;
        break;
      case OutputPart::Kind::kCallEnd: {
        std::string json;
        LOCKSTEP_CHECK(arguments.starts_with('{') && ScanJson(arguments, json), "{}", arguments);
        in_call = false;
        break;
      }
      case OutputPart::Kind::kCallBroken:
        in_call = false;
        break;
      default:
        LOCKSTEP_CHECK(!in_call, "text in a call");
    }
  }
  LOCKSTEP_CHECK(!in_call, "a call without an end");
}

void Run(std::string_view input) {
  if (input.size() < kHeaderBytes) return;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(input[i]); };
  const auto formats = OutputFormats();
  const OutputFormat& format = formats[byte(0) % formats.size()];
  const OutputParser::Options options = {.parse_calls = (byte(1) & 1) == 0,
                                         .split_reasoning = (byte(1) & 2) == 0,
                                         .begins_in_reasoning = (byte(1) & 4) != 0,
                                         .keep_special_tokens = (byte(1) & 8) != 0};
  std::array<size_t, kNumSizes> sizes;
  for (size_t i = 0; i < kNumSizes; ++i) sizes[i] = size_t{1} + byte(2 + i) % 64;
  const std::string_view output = input.substr(kHeaderBytes);
  const size_t whole = std::max<size_t>(output.size(), 1);
  const auto parts = Parse(format, options, output, {whole, whole, whole, whole});
  CheckParts(parts);
  LOCKSTEP_CHECK(Parse(format, options, output, sizes) == parts, "the cuts matter");
  LOCKSTEP_CHECK(Parse(format, options, output, {1, 1, 1, 1}) == parts, "bytes matter");
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::router::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
