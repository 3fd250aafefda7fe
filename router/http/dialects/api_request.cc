#include <fmt/format.h>

#include "router/http/dialects/dialect.h"

namespace lockstep::router {

void ApiRequest::SetRequestId(const std::string& id) {
  request_id = id;
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].set_request_id(prompts.size() == 1 ? id : fmt::format("{}-{}", id, i));
  }
}

size_t ApiRequest::NumHeldBytes() const {
  size_t num_bytes = 0;
  for (const lockstep::v1::GenerateRequest& prompt : prompts) num_bytes += prompt.SpaceUsedLong();
  return num_bytes;
}

}  // namespace lockstep::router
