#include "router/front/connection/exchange.h"

#include <algorithm>

#include "common/ids.h"

namespace lockstep::router {

std::string_view UsableRequestId(std::string_view header) {
  constexpr size_t kMaxBytes = 256;
  const bool usable =
      header.size() <= kMaxBytes && std::all_of(header.begin(), header.end(), IsIdCharacter);
  return usable ? header : std::string_view();
}

}  // namespace lockstep::router
