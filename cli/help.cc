#include "cli/help.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "cli/common/errors.h"
#include "cli/completion.h"
#include "cli/verbs.h"
#include "common/nearest.h"
#include "common/status.h"
#include "common/version.h"

namespace lockstep::cli {
namespace {

std::string Indented(std::string_view text) {
  std::string out;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    out += fmt::format("  {}\n", std::string_view(line.data(), line.size()));
  }
  return out;
}

std::string OptionColumn(const OptionSpec& option) {
  return option.placeholder.empty() ? fmt::format("--{}", option.name)
                                    : fmt::format("--{} {}", option.name, option.placeholder);
}

}  // namespace

std::string OverviewText() {
  std::string out = "Lockstep serves large language models.\n\nUsage: lockstep VERB [options]\n\n";
  for (const Verb& verb : Verbs()) out += fmt::format("  {:<11} {}\n", verb.name, verb.summary);
  out +=
      "\nExamples:\n"
      "  lockstep serve ~/models/model.gguf    serves it at http://127.0.0.1:8000/v1\n"
      "  lockstep chat                         talks to it\n"
      "  lockstep top                          shows what it does\n"
      "\n`lockstep help VERB` says more. All documents are in docs/.\n";
  return out;
}

std::string VerbText(const Verb& verb) {
  std::string out =
      fmt::format("lockstep {}: {}\n\nUsage: lockstep {}{}{}\n", verb.name, verb.summary, verb.name,
                  verb.arguments.empty() ? "" : " ", verb.arguments);
  if (!verb.details.empty()) out += fmt::format("\n{}\n", verb.details);
  if (!verb.options.empty()) {
    size_t width = 0;
    for (const OptionSpec& option : verb.options) {
      width = std::max(width, OptionColumn(option).size());
    }
    out += "\nOptions:\n";
    for (const OptionSpec& option : verb.options) {
      out += fmt::format("  {:<{}}  {}\n", OptionColumn(option), width, option.help);
    }
  }
  if (!verb.examples.empty()) out += "\nExamples:\n" + Indented(verb.examples);
  return out;
}

std::string UnknownVerbText(std::string_view name) {
  const std::optional<std::string_view> nearest = Nearest(name, VerbNames());
  return fmt::format("lockstep: unknown verb \"{}\"{} `lockstep help` lists all\n", name,
                     nearest ? fmt::format("; did you mean {}?", *nearest) : ";");
}

int RunHelp(const Verb&, std::span<const std::string> words) {
  if (words.empty()) {
    std::fputs(OverviewText().c_str(), stdout);
    return 0;
  }
  const Verb* const verb = FindVerb(words[0]);
  if (verb == nullptr) {
    std::fputs(UnknownVerbText(words[0]).c_str(), stderr);
    return 2;
  }
  std::fputs(VerbText(*verb).c_str(), stdout);
  return 0;
}

int RunVersion(const Verb&, std::span<const std::string>) {
  std::printf("%s\n", VersionText("lockstep").c_str());
  return 0;
}

int RunCompletion(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<std::string> script =
      CompletionScript(words.size() == 1 ? words[0] : std::string());
  if (!script.ok()) return PrintUsageError(verb.name, script.status());
  std::fputs(script->c_str(), stdout);
  return 0;
}

}  // namespace lockstep::cli
