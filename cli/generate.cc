#include "cli/generate.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "cli/common/environment.h"
#include "cli/common/errors.h"
#include "common/status.h"

namespace lockstep::cli {

int RunGenerate(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<std::string> program = SiblingProgram("lockstep-generate");
  if (!program.ok()) return PrintFailure(verb.name, program.status());
  // `lockstep serve` listens there by default. A --router of the user comes later and wins.
  std::vector<std::string> arguments = {*program, "--router=127.0.0.1:8000"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  execv(program->c_str(), pointers.data());
  return PrintFailure(verb.name, Internal("{}: {}", *program, std::strerror(errno)));
}

}  // namespace lockstep::cli
