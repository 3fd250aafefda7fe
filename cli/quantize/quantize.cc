#include "cli/quantize/quantize.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/errors.h"
#include "cli/common/options.h"
#include "cli/quantize/quantize_folder.h"
#include "cli/quantize/quantize_target.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

absl::StatusOr<QuantizeJob> ParseQuantizeOptions(const Verb& verb,
                                                 std::span<const std::string> words) {
  constexpr std::array<std::string_view, 1> kPositionals = {"MODEL"};
  Arguments arguments = Arguments::Parse(verb.options, words);
  arguments.ExpectPositionals(kPositionals);
  arguments.ExpectNoRest();
  QuantizeJob job;
  if (!arguments.positionals().empty()) job.model = arguments.positionals()[0];
  arguments.Read("output", job.output);
  if (!arguments.Has("output")) arguments.AddError("--output is missing");
  std::string target;
  arguments.ReadChoice("to", QuantizeTargetNames(), target);
  if (!arguments.Has("to")) arguments.AddError("--to is missing");
  if (const QuantizeTarget* const found = FindQuantizeTarget(target)) job.scheme = found->scheme;
  std::optional<uint64_t> group_size;
  arguments.ReadInteger("group-size", 1, 1 << 20, group_size);
  if (group_size && !target.empty() && job.scheme.extent != ScaleExtent::kGroup) {
    arguments.AddError("--group-size: " + target + " has no groups");
  }
  job.scheme.group_size = static_cast<uint32_t>(group_size.value_or(0));
  arguments.ReadAll("ignore", job.ignored);
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return job;
}

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void PrintReport(const QuantizeJob& job, const QuantizeReport& report) {
  const std::string groups = report.scheme.extent == ScaleExtent::kGroup
                                 ? fmt::format(", groups of {}", report.scheme.group_size)
                                 : "";
  const std::string text = fmt::format(
      "{}: {} of {} tensors quantised ({}, {} bits{}); {:.1f} MB became {:.1f} MB\n", job.output,
      report.num_quantized, report.num_tensors, WeightFormatName(report.scheme.format),
      report.scheme.bits, groups, Megabytes(report.bytes_before), Megabytes(report.bytes_after));
  std::fputs(text.c_str(), stdout);
}

void PrintProgress(uint64_t num_done, uint64_t num_tensors) {
  std::fprintf(stderr, "\r%llu of %llu tensors", static_cast<unsigned long long>(num_done),
               static_cast<unsigned long long>(num_tensors));
  if (num_done == num_tensors) std::fputs("\n", stderr);
}

}  // namespace

int RunQuantize(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<QuantizeJob> job = ParseQuantizeOptions(verb, words);
  if (!job.ok()) return PrintUsageError(verb.name, job.status());
  const QuantizeProgress progress =
      isatty(STDERR_FILENO) != 0 ? QuantizeProgress(PrintProgress) : nullptr;
  const absl::StatusOr<QuantizeReport> report = QuantizeFolder(*job, progress);
  if (!report.ok()) return PrintFailure(verb.name, report.status());
  PrintReport(*job, *report);
  return 0;
}

}  // namespace lockstep::cli
