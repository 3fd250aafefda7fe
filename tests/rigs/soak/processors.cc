#include "tests/rigs/soak/processors.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::bench {

absl::StatusOr<cpu_set_t> ParseProcessors(const std::string& text) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    uint32_t last = 0;
    const bool is_range = part.find('-') != std::string::npos;
    if (!absl::SimpleAtoi(ends.first, &first) ||
        !absl::SimpleAtoi(is_range ? ends.second : ends.first, &last) || first > last ||
        last >= CPU_SETSIZE) {
      return InvalidArgument("processors: expected a list like 0-3,8, got {}", text);
    }
    for (uint32_t i = first; i <= last; ++i) CPU_SET(i, &processors);
  }
  return processors;
}

OnProcessors::OnProcessors(const std::string& text) : active_(!text.empty()) {
  if (!active_) return;
  const absl::StatusOr<cpu_set_t> processors = ParseProcessors(text);
  LOCKSTEP_CHECK(processors.ok(), "processors \"{}\" were checked before", text);
  sched_getaffinity(0, sizeof(before_), &before_);
  LOCKSTEP_CHECK(sched_setaffinity(0, sizeof(cpu_set_t), &*processors) == 0,
                 "the processors {} are not there", text);
}

OnProcessors::~OnProcessors() {
  if (active_) sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace lockstep::bench
