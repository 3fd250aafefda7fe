#include "cli/serve/devices.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cli/common/environment.h"
#include "cli/serve/model/model_argument.h"
#include "cli/serve/processes/child.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kNeededCapability = "9.0";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::vector<Gpu> ParseGpus(std::string_view csv) {
  std::vector<Gpu> gpus;
  for (const absl::string_view line : absl::StrSplit(View(csv), '\n')) {
    std::vector<std::string> fields = absl::StrSplit(line, ',');
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    fields.resize(3);
    for (std::string& field : fields) absl::StripAsciiWhitespace(&field);
    gpus.push_back({.name = fields[0], .compute_capability = fields[1], .uuid = fields[2]});
  }
  return gpus;
}

std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& gpus,
                             const std::optional<std::string>& visible) {
  if (!visible) return gpus;
  std::vector<Gpu> chosen;
  for (const std::string& entry :
       static_cast<std::vector<std::string>>(absl::StrSplit(*visible, ','))) {
    size_t index = gpus.size();
    if (!absl::SimpleAtoi(entry, &index)) {
      const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
        return !entry.empty() && gpu.uuid.starts_with(entry);
      });
      index = static_cast<size_t>(found - gpus.begin());
    }
    if (index >= gpus.size()) break;
    chosen.push_back(gpus[index]);
  }
  return chosen;
}

absl::StatusOr<DeviceChoice> ChooseDevices(std::string_view device, bool built_with_cuda,
                                           const std::vector<Gpu>& gpus, uint32_t num_ranks) {
  if (device == "cpu") return DeviceChoice{.num_ranks = num_ranks};
  if (device == "auto" && gpus.empty()) return DeviceChoice{.num_ranks = num_ranks};
  if (device == "auto" && !built_with_cuda) {
    return DeviceChoice{.num_ranks = num_ranks,
                        .note = "this build has no CUDA, so the model runs on the CPU"};
  }
  if (gpus.empty()) return FailedPrecondition("--device cuda: this machine shows no NVIDIA GPU");
  for (size_t i = 0; i < gpus.size(); ++i) {
    const Gpu& gpu = gpus[i];
    if (!gpu.compute_capability.empty() && gpu.compute_capability != kNeededCapability) {
      return FailedPrecondition(
          "GPU {} is a {} of compute capability {}; Lockstep needs {} (H100, H200). "
          "--device cpu serves on the CPU",
          i, gpu.name, gpu.compute_capability, kNeededCapability);
    }
  }
  if (!built_with_cuda) return FailedPrecondition("--device cuda: this build has no CUDA");
  const auto num_gpus = static_cast<uint32_t>(gpus.size());
  if (num_gpus < num_ranks) {
    return FailedPrecondition(
        "--tensor-parallel: {} ranks need a GPU each, this machine shows {}; --device cpu has "
        "ranks",
        num_ranks, num_gpus);
  }
  DeviceChoice choice = {.cuda = true, .num_workers = num_gpus / num_ranks, .num_ranks = num_ranks};
  if (const uint32_t num_left = num_gpus % num_ranks; num_left > 0) {
    choice.note = fmt::format("{} of {} GPUs stay unused: each worker takes {}", num_left, num_gpus,
                              num_ranks);
  }
  return choice;
}

std::string DevicesOfWorker(const DeviceChoice& choice, uint32_t worker) {
  std::vector<uint32_t> devices(choice.num_ranks);
  std::iota(devices.begin(), devices.end(), worker * choice.num_ranks);
  return fmt::format("{}", fmt::join(devices, ","));
}

std::vector<Gpu> FindGpus() {
  if (const std::optional<std::string> nvidia_smi = FindInPath("nvidia-smi")) {
    const absl::StatusOr<Captured> captured =
        RunAndCapture({*nvidia_smi, "--query-gpu=name,compute_cap,uuid", "--format=csv,noheader"},
                      {.timeout = absl::Seconds(20), .quiet = true});
    if (captured.ok() && captured->wait_status == 0) return ParseGpus(captured->output);
  }
  std::vector<Gpu> gpus;
  while (Exists("/dev/nvidia" + std::to_string(gpus.size())))
    gpus.push_back({.name = "NVIDIA GPU"});
  return gpus;
}

}  // namespace lockstep::cli
