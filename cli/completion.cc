#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "cli/verbs.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kShells = "bash zsh fish";

// Words that may follow a verb: for `completion` the shells, for `help` the verbs, else its
// options.
std::string WordsAfter(const Verb& verb) {
  if (verb.name == "completion") return std::string(kShells);
  if (verb.name == "help") return fmt::format("{}", fmt::join(VerbNames(), " "));
  std::vector<std::string> words;
  for (const OptionSpec& option : verb.options) words.push_back(fmt::format("--{}", option.name));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string BashScript() {
  std::string cases;
  for (const Verb& verb : Verbs()) {
    if (const std::string words = WordsAfter(verb); !words.empty()) {
      cases += fmt::format("    {}) words=\"{}\" ;;\n", verb.name, words);
    }
  }
  return fmt::format(
      "_lockstep() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} words=\"\"\n"
      "  if [[ $COMP_CWORD == 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _lockstep lockstep\n",
      fmt::join(VerbNames(), " "), cases);
}

// zsh runs bash's script through its own emulation of `complete`.
std::string ZshScript() {
  return "autoload -Uz +X compinit bashcompinit && { (( $+functions[compdef] )) || compinit } && "
         "bashcompinit\n" +
         BashScript();
}

// In single quotes, for fish.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishScript() {
  std::string out;
  for (const Verb& verb : Verbs()) {
    out += fmt::format("complete -c lockstep -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                       Quoted(verb.summary));
  }
  for (const Verb& verb : Verbs()) {
    const std::string condition =
        fmt::format("complete -c lockstep -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const OptionSpec& option : verb.options) {
      out += fmt::format("{} -l {}{} -d {}\n", condition, option.name,
                         option.placeholder.empty() ? "" : " -r", Quoted(option.help));
    }
    if (verb.options.empty() && !WordsAfter(verb).empty()) {
      out += fmt::format("{} -f -a {}\n", condition, Quoted(WordsAfter(verb)));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(std::string_view shell) {
  if (shell == "bash") return BashScript();
  if (shell == "zsh") return ZshScript();
  if (shell == "fish") return FishScript();
  return InvalidArgument("expected the name of a shell: bash, zsh or fish");
}

}  // namespace lockstep::cli
