#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "router/calls/output_format.h"

namespace lockstep::router {

// How calls are written.
enum class CallStyle : uint8_t {
  kNone,
  // JSON objects {"name": .., "arguments": {..}}: one, several, or a list of them.
  kJson,
  // A name and arguments between tags.
  kTagged,
  // One of the two above. The first character after the tag decides: a bracket begins JSON.
  kJsonOrTagged,
  // A list of calls in Python's syntax, with keyword arguments.
  kPython,
  // Messages with headers, for content and reasoning as well (harmony_parser.h).
  kHarmony,
};

// How arguments are written between tags.
enum class ArgumentStyle : uint8_t {
  kParameters,  // tags around each key and each value
  kJson,        // one JSON object
  kGemma,       // one object with bare keys, and strings between <|"|>
};

// The texts around the parts of a call, in the order of the output. Empty: there is none. White
// space between them is free.
struct CallTags {
  std::string_view block_open = {};   // around all calls
  std::string_view call_open = {};    // the name follows
  std::string_view name_prefix = {};  // no part of the name; may be missing
  std::string_view name_cut = {};     // this character and the rest are no part of the name
  std::string_view id_open = {};      // behind the name: an id of the model's own, which is dropped
  std::string_view name_end = {};     // may be missing if the next tag shows the end
  // ArgumentStyle::kParameters.
  std::string_view key_open = {};
  std::string_view key_end = {};
  std::string_view value_open = {};
  std::string_view string_open = {};  // in place of value_open: the value is a string
  std::string_view value_end = {};
  bool trims_values = false;  // one newline at each end of a value is no part of it
  // ArgumentStyle::kJson: a fence around the arguments, which may be missing.
  std::string_view fence_open = {};
  std::string_view fence_end = {};

  std::string_view call_end = {};  // empty: the end of the arguments is the end of the call
  std::string_view block_end = {};
};

// A row of the table.
struct OutputFormat {
  std::string_view name;

  // Reasoning. Empty: there is none.
  std::string_view think_open = {};
  std::string_view think_end = {};
  // False: only before all content. Text in the middle of an answer that looks like the marker is
  // content.
  bool thinks_anywhere = false;
  // A call may begin inside reasoning, and then ends it.
  bool calls_in_reasoning = false;

  CallStyle style = CallStyle::kNone;
  ArgumentStyle arguments = ArgumentStyle::kParameters;
  CallTags tags = {};
  // Calls may also begin with call_open, without block_open.
  bool block_is_optional = false;
  // A message that begins with this character may be calls, without any tag. Then only known names
  // are calls.
  std::string_view whole_message = {};
  // CallStyle::kJson: the key that models write. Both are read.
  std::string_view arguments_key = "arguments";
  // CallStyle::kHarmony: the tokens between the parts of messages.
  std::array<std::string_view, 7> frame = {};

  // The ids of calls are short, because the model's templates ask for that.
  bool short_ids = false;

  // How the format is recognised: texts of the chat template, and tokens of the vocabulary.
  std::array<std::string_view, 3> in_template = {};
  std::array<std::string_view, 3> in_vocabulary = {};
};

// In the order of detection: the first row that fits is the format of a model.
std::span<const OutputFormat> OutputFormats();

// Whether a special token of this spelling is a marker of the format, or a part of one.
bool IsMarker(const OutputFormat& format, std::string_view spelling);

}  // namespace lockstep::router
