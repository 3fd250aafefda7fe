#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

// What `lockstep` can do, as data: the dispatcher, the help and the completion read it.
namespace lockstep::cli {

struct Verb {
  std::string_view name;
  std::string_view arguments;  // what follows the name in the usage line
  std::string_view summary;    // one line, for the list of all verbs
  std::string_view details;    // paragraphs of `lockstep help VERB`; may be empty
  std::span<const OptionSpec> options;
  std::string_view examples;  // lines; may be empty
  int (*run)(std::span<const std::string> words);
};

// In the order of the help.
std::span<const Verb> Verbs();
const Verb* FindVerb(std::string_view name);
std::vector<std::string_view> VerbNames();

}  // namespace lockstep::cli
