// A renderer that a template took over: its answers are read as foreign data. Whatever is taken for
// an answer is within its bounds, and says nothing else when it is written again.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/check.h"
#include "common/status.h"
#include "router/templates/renderer_frames.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

void CheckAnswer(std::string_view payload) {
  const absl::StatusOr<std::string> answer = ParseAnswer(payload);
  if (absl::IsInternal(answer.status())) return;
  const std::string again = AnswerFrame(answer).substr(kFrameHeaderBytes);
  if (answer.ok()) {
    LOCKSTEP_CHECK(answer->size() <= kMaxRenderedBytes, "{} bytes", answer->size());
    LOCKSTEP_CHECK(again == payload, "another answer");
    return;
  }
  LOCKSTEP_CHECK(absl::IsInvalidArgument(answer.status()), "{}", answer.status().ToString());
  const std::string message = Message(answer.status());
  LOCKSTEP_CHECK(message.size() <= kMaxErrorBytes, "{} bytes", message.size());
  LOCKSTEP_CHECK(!FindInvalidUtf8(message), "an error that is no text");
  LOCKSTEP_CHECK(ParseAnswer(again).status() == answer.status(), "another error");
}

// The other direction: the router writes jobs, and the renderer reads them.
void CheckJob(std::string_view payload) {
  const absl::StatusOr<RendererJob> job = ParseJob(payload);
  if (!job.ok()) return;
  std::string frame;
  if (const auto* const source = std::get_if<TemplateSource>(&*job)) {
    frame = LoadFrame(*source);
  } else {
    const auto& render = std::get<RenderJob>(*job);
    frame = RenderFrame(render.messages, render.options).value();
  }
  LOCKSTEP_CHECK(frame.substr(kFrameHeaderBytes) == payload, "another job");
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  lockstep::router::CheckAnswer(payload);
  lockstep::router::CheckJob(payload);
  return 0;
}
