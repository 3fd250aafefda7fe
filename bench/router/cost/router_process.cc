#include "bench/router/cost/router_process.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

// Names the model in the router's series and requests.
constexpr char kModelId[] = "cost";
constexpr absl::Duration kReadyTimeout = absl::Seconds(30);

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "http-0\n" and "http-1\n" are "http".
std::string NameWithoutNumber(std::string name) {
  if (name.ends_with('\n')) name.pop_back();
  const size_t end = name.find_last_not_of("-0123456789");
  return end == std::string::npos ? name : name.substr(0, end + 1);
}

uint64_t Field(const std::string& text, const std::string& name) {
  const size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RouterProcess>> RouterProcess::Start(const Options& options) {
  std::vector<std::string> arguments = {options.program,
                                        "--model=" + options.model,
                                        fmt::format("--model_id={}", kModelId),
                                        "--worker=" + options.worker,
                                        "--listen=127.0.0.1:0",
                                        "--http_listen=127.0.0.1:0",
                                        "--admin_listen=127.0.0.1:0",
                                        "--log_level=warn",
                                        "--step_timeout=10m"};
  arguments.insert(arguments.end(), options.more_flags.begin(), options.more_flags.end());
  LOCKSTEP_ASSIGN_OR_RETURN(testing::ChildProcess child, testing::ChildProcess::Start(arguments));
  return std::unique_ptr<RouterProcess>(new RouterProcess(std::move(child)));
}

absl::Status RouterProcess::WaitUntilReady() {
  absl::Status problem;
  const absl::Status ready = WaitUntil("the router is ready", kReadyTimeout, [&] {
    problem = testing::HttpGet(child_.http_address(), "/ready").status();
    return problem.ok();
  });
  return ready.ok() ? ready : problem;
}

absl::StatusOr<CpuTime> RouterProcess::ReadCpuTime() const {
  CpuTime time;
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(child_.pid(), &clock) != 0 || clock_gettime(clock, &now) != 0) {
    return Internal("no processor time of process {}", child_.pid());
  }
  time.seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  std::error_code ended;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", child_.pid()), ended)) {
    const std::string run = ReadText(thread.path() / "schedstat");
    if (run.empty()) continue;
    const std::string name = NameWithoutNumber(ReadText(thread.path() / "comm"));
    time.seconds_by_thread[name] += 1e-9 * static_cast<double>(std::stoull(run));
    time.num_switches += Field(ReadText(thread.path() / "status"), "\nvoluntary_ctxt_switches:");
  }
  return time;
}

absl::StatusOr<uint64_t> RouterProcess::ReadResidentBytes() const {
  const uint64_t kib = child_.ResidentKib();
  if (kib == 0) return Internal("no resident size of process {}", child_.pid());
  return kib << 10;
}

absl::StatusOr<double> RouterProcess::ReadMetric(const std::string& name) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            testing::HttpGet(child_.admin_address(), "/metrics"));
  return testing::MetricValue(text, fmt::format("{}{{model=\"{}\"}}", name, kModelId));
}

}  // namespace lockstep::bench
