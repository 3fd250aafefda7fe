#include "common/runtime/process_metrics.h"

#include <dirent.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// Fields of /proc/self/stat after the name of the program, see proc(5). The state is the first.
enum StatField : size_t {
  kUserTicks = 11,
  kSystemTicks = 12,
  kStartTicks = 19,
  kVirtualBytes = 20,
  kResidentPages = 21,
  kNumStatFields = 22,
};
using Stat = std::array<double, kNumStatFields>;

std::optional<Stat> ReadStat() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  Stat stat{};
  fields >> state;
  for (size_t i = 1; i < stat.size(); ++i) fields >> stat[i];
  return fields ? std::optional(stat) : std::nullopt;
}

// When the system started, in seconds since 1970. Reading its file takes milliseconds on machines
// with many processors.
std::optional<double> ReadBootTime() {
  std::ifstream file("/proc/stat");
  std::string name;
  double value = 0;
  while (file >> name) {
    if (name == "btime" && file >> value) return value;
    file.ignore(1 << 20, '\n');
  }
  return std::nullopt;
}

std::optional<double> CountOpenDescriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  double count = -1;  // the folder itself
  while (const dirent* const entry = ::readdir(folder)) count += entry->d_name[0] == '.' ? 0 : 1;
  ::closedir(folder);
  return count;
}

MetricFamily Family(const char* name, const char* help, MetricType type, double value) {
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  MetricFamily family{.name = name, .help = help, .type = type, .metric = {}};
  family.metric.push_back(std::move(metric));
  return family;
}

}  // namespace

std::vector<MetricFamily> CollectProcessMetrics() {
  std::vector<MetricFamily> families;
  if (const std::optional<Stat> stat = ReadStat()) {
    const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const auto page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
    families.push_back(Family("process_cpu_seconds_total", "Processor time of the process.",
                              MetricType::Counter,
                              ((*stat)[kUserTicks] + (*stat)[kSystemTicks]) / ticks_per_second));
    families.push_back(Family("process_resident_memory_bytes", "Resident memory.",
                              MetricType::Gauge, (*stat)[kResidentPages] * page_bytes));
    families.push_back(Family("process_virtual_memory_bytes", "Virtual memory.", MetricType::Gauge,
                              (*stat)[kVirtualBytes]));
    static const std::optional<double> boot = ReadBootTime();
    if (boot.has_value()) {
      families.push_back(Family("process_start_time_seconds", "Start of the process, since 1970.",
                                MetricType::Gauge,
                                *boot + (*stat)[kStartTicks] / ticks_per_second));
    }
  }
  if (const std::optional<double> count = CountOpenDescriptors()) {
    families.push_back(
        Family("process_open_fds", "Open file descriptors.", MetricType::Gauge, *count));
  }
  if (rlimit limit{}; ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(Family("process_max_fds", "The most file descriptors that may be open.",
                              MetricType::Gauge, static_cast<double>(limit.rlim_cur)));
  }
  return families;
}

std::string MetricsText(const prometheus::Collectable& own) {
  std::vector<MetricFamily> families = own.Collect();
  for (MetricFamily& family : CollectProcessMetrics()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace lockstep
