#pragma once

#include <cstddef>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/calls/output_parser.h"

namespace lockstep::router {

using Parts = std::vector<OutputPart>;

// An output of a model, and the parts that the parser must find in it.
struct OutputCase {
  std::string name;
  std::string format;
  std::string output;
  Parts expected;
  bool begins_in_reasoning = false;
};

// For GoogleTest.
void PrintTo(const OutputCase& item, std::ostream* out);

// Builders of expected parts.
Parts Content(std::string text);
Parts Reasoning(std::string text);
Parts Call(std::string name, std::string arguments);
Parts BrokenCall(std::string name, std::string arguments);
Parts operator+(Parts a, const Parts& b);

// The tools of all cases: get_weather(city: string, days: integer, unit: enum of strings,
// options: object), search(query: string, limit: integer or null, tags: array, exact: boolean,
// id: string or integer, free: anything), now().
const ToolList& CaseTools();
std::string_view CaseToolsJson();

std::vector<OutputCase> JsonCases();       // hermes, llama3, llama4, mistral
std::vector<OutputCase> TaggedCases();     // qwen3_coder, glm47, deepseek_v32, minimax_m2
std::vector<OutputCase> NamedCases();      // deepseek_v3, deepseek_v31, kimi_k2, gemma4, mistral
std::vector<OutputCase> MessageCases();    // harmony, pythonic
std::vector<OutputCase> ReasoningCases();  // all formats that reason
std::vector<OutputCase> AllCases();

// A piece of an output, as OutputParser::Push takes it.
struct Piece {
  std::string text;
  bool special = false;
};

inline constexpr OutputParser::Options kEverything = {.parse_calls = true, .split_reasoning = true};

struct Parsed {
  Parts parts;  // joined: no neighbours of a kind
  uint32_t num_whole_calls = 0;
  uint32_t num_broken_calls = 0;
  bool operator==(const Parsed&) const = default;
};

Parsed Parse(const OutputFormat& format, std::span<const Piece> pieces,
             OutputParser::Options options = kEverything, const ToolList& tools = CaseTools());
Parsed Parse(std::string_view format, std::string_view output,
             OutputParser::Options options = kEverything, const ToolList& tools = CaseTools());

// `text` in pieces that end at these offsets.
std::vector<Piece> CutAt(std::string_view text, std::initializer_list<size_t> offsets);
std::vector<Piece> EachByte(std::string_view text);

// For failures: one line for each part.
std::string Describe(const Parts& parts);

}  // namespace lockstep::router
