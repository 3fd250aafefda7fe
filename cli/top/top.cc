#include "cli/top/top.h"

#include <absl/time/clock.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "cli/common/errors.h"
#include "cli/common/http_get.h"
#include "cli/common/interrupt_signal.h"
#include "cli/common/options.h"
#include "cli/common/server_url.h"
#include "cli/top/frame.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr int kIntervalMs = 1000;
constexpr char kHome[] = "\x1b[H";
constexpr char kEraseBelow[] = "\x1b[J";
constexpr char kEraseScreen[] = "\x1b[2J";

struct TopOptions {
  Address address;
  bool once = false;
};

absl::StatusOr<TopOptions> ParseTopOptions(const Verb& verb, std::span<const std::string> words) {
  Arguments arguments = Arguments::Parse(verb.options, words);
  arguments.ExpectPositionals({});
  arguments.ExpectNoRest();
  TopOptions options;
  std::string url = "127.0.0.1:8000";
  arguments.Read("url", url);
  arguments.Read("once", options.once);
  const absl::StatusOr<ServerUrl> server = ParseServerUrl(url);
  if (!server.ok()) {
    arguments.AddError("--url: " + Message(server.status()));
  } else if (server->tls) {
    arguments.AddError("--url: metrics are read without TLS; name the router's admin address");
  } else {
    options.address = server->address;
  }
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return options;
}

absl::StatusOr<MetricsText> Scrape(const Address& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HttpReply reply, HttpGet(address, "/metrics", kTimeout));
  if (reply.status == 403) {
    return FailedPrecondition(
        "{} asks for keys, so its metrics are at the router's admin address only: --url ADDRESS",
        FormatAddress(address));
  }
  MetricsText metrics = MetricsText::Parse(reply.body);
  if (reply.status != 200 || !metrics.Sum("lockstep_router_build_info")) {
    return FailedPrecondition("{}/metrics is not a router's (status {})", FormatAddress(address),
                              reply.status);
  }
  return metrics;
}

// Runs until Ctrl-C. While the server is away, shows the error and tries again.
int Watch(const Address& address) {
  InterruptSignal interrupt;
  const Paint paint = {.on = WantsColours(STDOUT_FILENO)};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  std::unique_ptr<const MetricsText> before;
  Instant before_at;
  if (is_terminal) std::fputs(kEraseScreen, stdout);
  for (;;) {
    const Instant now = MonotonicNow();
    absl::StatusOr<MetricsText> metrics = Scrape(address);
    const std::string text = metrics.ok()
                                 ? TopFrame(before.get(), *metrics, now - before_at, paint)
                                 : paint.Red(WithoutControls(Message(metrics.status()))) + "\n";
    std::printf("%s%s%s\n", is_terminal ? kHome : "", is_terminal ? kEraseBelow : "", text.c_str());
    std::fflush(stdout);
    before.reset();
    if (metrics.ok()) before = std::make_unique<const MetricsText>(*std::move(metrics));
    before_at = now;
    pollfd interrupted = {interrupt.fd(), POLLIN, 0};
    if (poll(&interrupted, 1, kIntervalMs) != 0) return 0;
    if (std::ferror(stdout) != 0) return 0;  // stdout has no reader any more
  }
}

}  // namespace

int RunTop(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<TopOptions> options = ParseTopOptions(verb, words);
  if (!options.ok()) return PrintUsageError(verb.name, options.status());
  const absl::StatusOr<MetricsText> metrics = Scrape(options->address);
  if (!metrics.ok()) return PrintFailure(verb.name, metrics.status());
  if (!options->once) return Watch(options->address);
  std::fputs(TopFrame(nullptr, *metrics, absl::ZeroDuration(), {}).c_str(), stdout);
  return 0;
}

}  // namespace lockstep::cli
