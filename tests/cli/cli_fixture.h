#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/cli_process.h"
#include "tests/common/temp_folder.h"

namespace lockstep::testing {

// `lockstep` with a home folder of its own.
class CliTest : public ::testing::Test {
 protected:
  static constexpr char kModel[] = "tests/golden/tiny-llama";

  // HOME, folders of the XDG specification that are there, and no colours.
  CliProcess::Options Options(bool terminal = false) const {
    return {.environment = {{"HOME", home_.path()},
                            {"XDG_CACHE_HOME", home_.path() + "/cache"},
                            {"XDG_STATE_HOME", home_.path() + "/state"},
                            {"NO_COLOR", "1"},
                            {"TERM", "xterm"},
                            {"LC_ALL", "C.UTF-8"}},
            .terminal = terminal,
            .program = program_};
  }

  // Serves the tiny model on a free port. Fails fatally.
  void Serve(const std::vector<std::string>& more = {}) { ServeModel(kModel, more); }
  void ServeModel(const std::string& model, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"serve",          model, "--port",        "0",
                                          "--device",       "cpu", "--worker-flag", "--threads=1",
                                          "--restart-wait", "0.05"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    serve_.emplace(arguments, Options());
    ASSERT_TRUE(serve_->WaitFor("Ctrl-C stops"));
    address_ = WordAfter(serve_->output(), "\n  gRPC ");
    metrics_address_ = WordAfter(serve_->output(), "metrics      http://");
    metrics_address_ = metrics_address_.substr(0, metrics_address_.find('/'));
  }

  pid_t ChildNamed(const std::string& name) const {
    const auto children = ChildrenOf(serve_->pid());
    const auto found = children.find(name);
    return found == children.end() ? -1 : found->second;
  }
  pid_t Worker() const { return ChildNamed("lockstep-worker"); }
  pid_t Router() const { return ChildNamed("lockstep-router"); }

  const TempFolder home_;
  std::string program_;  // empty: the build's `lockstep`
  std::optional<CliProcess> serve_;
  std::string address_;  // of the API
  std::string metrics_address_;
};

}  // namespace lockstep::testing
