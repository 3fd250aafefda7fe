#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/shown_text.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kUnknown = "-";

std::string Count(std::optional<double> value) {
  return value ? fmt::format("{:.0f}", *value) : std::string(kUnknown);
}

std::string Milliseconds(std::optional<double> seconds) {
  if (!seconds) return std::string(kUnknown);
  const double ms = *seconds * 1000;
  return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms);
}

class Frame {
 public:
  Frame(const MetricsText* before, const MetricsText& after, absl::Duration passed)
      : before_(before), after_(after), seconds_(absl::ToDoubleSeconds(passed)) {}

  std::string Gauge(const std::string& name) const { return Count(after_.Sum(Full(name))); }

  std::string Rate(const std::string& name) const {
    if (before_ == nullptr || seconds_ <= 0) return std::string(kUnknown);
    const double counted = Sum(&after_, name) - Sum(before_, name);
    return fmt::format("{:.0f}", std::max(counted, 0.0) / seconds_);
  }

  std::string Quantile(const std::string& name, double quantile) const {
    return Milliseconds(QuantileBetween(BucketsBefore(name), after_.Buckets(Full(name)), quantile));
  }

  // The mean of a histogram's values.
  std::string Mean(const std::string& name) const {
    const double count = Since(name + "_count");
    const double sum = Since(name + "_sum");
    return count > 0 ? fmt::format("{:.1f}", sum / count) : std::string(kUnknown);
  }

  std::string KvUse() const {
    double total = 0;
    for (const char* const state : {"free", "used", "cached", "fenced"}) total += Blocks(state);
    if (total <= 0) return std::string(kUnknown);
    return fmt::format("{:.0f} % used, {:.0f} % cached, {:.0f} blocks",
                       100 * Blocks("used") / total, 100 * Blocks("cached") / total, total);
  }

  // Empty if nothing was drafted.
  std::string Drafts() const {
    const double rounds = Since("spec_decode_rounds_total");
    const double drafted = Since("spec_decode_draft_tokens_total");
    const double accepted = Since("spec_decode_accepted_tokens_total");
    if (rounds <= 0 || drafted <= 0) return "";
    return fmt::format("{:.2f} tokens a round, {:.0f} % of the drafts right", 1 + accepted / rounds,
                       100 * accepted / drafted);
  }

  // "2 ready, 1 lost".
  std::string Workers() const {
    std::map<std::string, int> states;
    for (const std::string& state : after_.LabelsWith(Full("worker_state"), "state", 1)) {
      ++states[state];
    }
    std::string out;
    for (const auto& [state, count] : states) {
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, ShownName(state));
    }
    return out.empty() ? std::string(kUnknown) : out;
  }

 private:
  static std::string Full(const std::string& name) { return "lockstep_router_" + name; }
  static double Sum(const MetricsText* metrics, const std::string& name) {
    return metrics == nullptr ? 0 : metrics->Sum(Full(name)).value_or(0);
  }
  double Since(const std::string& name) const { return Sum(&after_, name) - Sum(before_, name); }
  double Blocks(const std::string& state) const {
    return after_.Sum(Full("kv_blocks"), {{"state", state}}).value_or(0);
  }
  std::vector<std::pair<double, double>> BucketsBefore(const std::string& name) const {
    return before_ == nullptr ? std::vector<std::pair<double, double>>()
                              : before_->Buckets(Full(name));
  }

  const MetricsText* const before_;
  const MetricsText& after_;
  const double seconds_;
};

}  // namespace

std::string TopFrame(const MetricsText* before, const MetricsText& after, absl::Duration passed,
                     const Paint& paint) {
  const Frame frame(before, after, passed);
  std::string out;
  const auto row = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{} {}\n", paint.Dim(fmt::format("{:<12}", name)), value);
  };
  const std::vector<std::string> models =
      after.LabelsWith("lockstep_router_build_info", "model", 1);
  row("model", models.empty() ? std::string(kUnknown) : ShownName(models[0]));
  row("workers", frame.Workers());
  row("requests", fmt::format("{} running, {} waiting", frame.Gauge("running_requests"),
                              frame.Gauge("queue_requests")));
  row("tokens/s", fmt::format("{} in, {} out", frame.Rate("prompt_tokens_total"),
                              frame.Rate("generation_tokens_total")));
  for (const auto& [label, name] : {std::pair("first token", "time_to_first_token_seconds"),
                                    std::pair("next token", "inter_token_latency_seconds")}) {
    row(label,
        fmt::format("p50 {}, p99 {}", frame.Quantile(name, 0.5), frame.Quantile(name, 0.99)));
  }
  row("batch", fmt::format("{} sequences", frame.Mean("step_batch_sequences")));
  if (const std::string drafts = frame.Drafts(); !drafts.empty()) row("drafts", drafts);
  row("KV cache", frame.KvUse());
  out += paint.Dim(before == nullptr ? "times and batch: since the start"
                                     : fmt::format("times and batch: the last {:.1f} s",
                                                   absl::ToDoubleSeconds(passed))) +
         "\n";
  return out;
}

}  // namespace lockstep::cli
