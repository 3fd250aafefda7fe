// lockstep: one program for people. It serves a model, talks to it and watches it.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/help.h"
#include "cli/verbs.h"
#include "common/shutdown_signal.h"

namespace {

bool AsksForHelp(const std::string& word) { return word == "--help" || word == "-h"; }

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep::cli;
  lockstep::IgnoreBrokenPipes();
  std::signal(SIGCHLD, SIG_DFL);  // ignored by some who start programs, which hides how children end
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::fputs(OverviewText().c_str(), stderr);
    return 2;
  }
  if (AsksForHelp(words[0])) return RunHelp({});
  if (words[0] == "--version") return RunVersion({});
  const Verb* const verb = FindVerb(words[0]);
  if (verb == nullptr) {
    std::fputs(UnknownVerbText(words[0]).c_str(), stderr);
    return 2;
  }
  // `lockstep generate --help` is answered by lockstep-generate, which knows its flags.
  if (verb->name != "generate" && words.size() > 1 && AsksForHelp(words[1])) {
    return RunHelp(std::vector<std::string>{words[0]});
  }
  return verb->run({words.begin() + 1, words.end()});
}
