#include "common/runtime/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/check.h"

namespace lockstep {

uint64_t RaiseDescriptorLimit() {
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit = {};
  LOCKSTEP_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit on descriptors is not readable");
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = std::max(soft, std::min(limit.rlim_max, kEnough));
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : soft;
}

}  // namespace lockstep
