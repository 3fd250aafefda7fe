#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/common/options.h"

namespace lockstep::cli {

// One thing that `lockstep` can do, as data: the dispatcher, the help and the completion read it.
struct Verb {
  std::string_view name;
  std::string_view arguments;  // after the name in the usage line
  std::string_view summary;    // one line, for the list of all verbs
  std::string_view details;    // paragraphs of `lockstep help VERB`; may be empty
  std::span<const OptionSpec> options;
  std::string_view examples;  // lines; may be empty
  // Gets this verb and the words after its name. Returns the exit code.
  int (*run)(const Verb& verb, std::span<const std::string> words);
};

}  // namespace lockstep::cli
