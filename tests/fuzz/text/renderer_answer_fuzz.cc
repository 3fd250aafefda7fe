// A renderer that a template took over: its answers are read as foreign data. Whatever is taken for
// an answer is within its bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/caged/frame_io.h"
#include "common/check.h"
#include "common/status.h"
#include "router/templates/renderer_frames.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

void CheckAnswer(std::string_view payload) {
  const absl::StatusOr<std::string> answer = ParseAnswer(payload);
  if (absl::IsInternal(answer.status())) return;
  if (answer.ok()) {
    LOCKSTEP_CHECK(answer->size() <= kMaxRenderedBytes, "{} bytes", answer->size());
    LOCKSTEP_CHECK(payload.ends_with(*answer), "another text");
    return;
  }
  LOCKSTEP_CHECK(absl::IsInvalidArgument(answer.status()), "{}", answer.status().ToString());
  const std::string message = Message(answer.status());
  LOCKSTEP_CHECK(message.size() <= kMaxCagedErrorBytes, "{} bytes", message.size());
  LOCKSTEP_CHECK(!FindInvalidUtf8(message), "an error that is no text");
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  lockstep::router::CheckAnswer(payload);
  return 0;
}
