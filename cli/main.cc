// lockstep: one program for people. It serves a model, talks to it and watches it.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help.h"
#include "cli/verbs.h"
#include "common/runtime/shutdown_signal.h"

namespace {

bool AsksForHelp(const std::string& word) { return word == "--help" || word == "-h"; }

// The words after "--" are arguments of another program.
bool AnyAsksForHelp(std::span<const std::string> words) {
  return std::find_if(words.begin(), std::find(words.begin(), words.end(), "--"), AsksForHelp) !=
         std::find(words.begin(), words.end(), "--");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep::cli;
  lockstep::IgnoreBrokenPipes();
  // The program that started this one may have set SIGCHLD to be ignored. That would hide how our
  // children end.
  std::signal(SIGCHLD, SIG_DFL);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::fputs(OverviewText().c_str(), stderr);
    return 2;
  }
  const auto run = [](std::string_view verb, std::span<const std::string> arguments) {
    return FindVerb(verb)->run(*FindVerb(verb), arguments);
  };
  if (AsksForHelp(words[0])) return run("help", {});
  if (words[0] == "--version") return run("version", {});
  const Verb* const verb = FindVerb(words[0]);
  if (verb == nullptr) {
    std::fputs(UnknownVerbText(words[0]).c_str(), stderr);
    return 2;
  }
  // `lockstep generate --help` is answered by lockstep-generate, which knows its flags.
  if (verb->name != "generate" && AnyAsksForHelp(std::span(words).subspan(1))) {
    return run("help", std::vector<std::string>{words[0]});
  }
  return verb->run(*verb, {words.begin() + 1, words.end()});
}
