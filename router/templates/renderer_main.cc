// lockstep-template-renderer: renders the chat template of a model for lockstep-router, which
// starts it, in a cage (renderer_cage.h): a template is a program, and this is where it runs. Its
// standard input is one end of a socket pair. For each frame (renderer_frames.h) it sends one back,
// until the other end is closed.
#include <malloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/runtime/release_memory.h"
#include "common/status.h"
#include "router/templates/frame_io.h"
#include "router/templates/renderer_cage.h"
#include "router/templates/renderer_frames.h"
#include "router/templates/renderer_process.h"
#include "router/templates/template_engine.h"

namespace lockstep::router {
namespace {

constexpr int kProgramFd = 3;  // the file of this program, left over from its start
constexpr size_t kMaxKeptBytes = size_t{64} << 20;
constexpr size_t kMaxFreeBytes = size_t{8} << 20;

struct Arguments {
  CageLimits limits;
  uint32_t cpu_seconds = 0;  // of one job
};

std::optional<Arguments> ArgumentsFrom(int argc, char** argv) {
  if (argc != 4) return std::nullopt;
  uint64_t numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    const std::string_view text = argv[i + 1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  }
  return Arguments{
      .limits = {.parent = static_cast<pid_t>(numbers[0]), .memory_bytes = numbers[1] << 20},
      .cpu_seconds = static_cast<uint32_t>(numbers[2])};
}

class Renderer {
 public:
  // The answer to one payload.
  absl::StatusOr<std::string> Do(std::string_view payload) {
    LOCKSTEP_ASSIGN_OR_RETURN(RendererJob job, ParseJob(payload));
    if (const auto* const source = std::get_if<TemplateSource>(&job)) {
      LOCKSTEP_ASSIGN_OR_RETURN(template_, ParseTemplate(*source));
      return std::string();
    }
    if (template_ == nullptr) return absl::InternalError("no template was loaded");
    const auto& rendering = std::get<RenderJob>(job);
    return template_->Render(rendering.messages, rendering.options);
  }

 private:
  std::unique_ptr<const ChatTemplate> template_;
};

// Values of a template that refer to each other are never freed. A renderer that has collected too
// many goes, and is replaced.
bool HasKeptTooMuch() {
  const struct mallinfo2 heap = mallinfo2();
  if (heap.fordblks > kMaxFreeBytes) malloc_trim(0);
  return heap.uordblks + heap.hblkhd > kMaxKeptBytes;
}

int Serve(uint32_t cpu_seconds) {
  const auto for_ever = [] { return -1; };
  Renderer renderer;
  for (;;) {
    std::string payload;
    const FrameEnd end = ReceivePayload(STDIN_FILENO, kMaxJobBytes, payload, for_ever);
    if (end != FrameEnd::kDone) break;
    AllowProcessorTime(cpu_seconds);
    const std::string answer = AnswerFrame(renderer.Do(payload));
    ReleaseMemory(payload);
    if (SendFrame(STDIN_FILENO, answer, for_ever) != FrameEnd::kDone) break;
    if (HasKeptTooMuch()) break;
  }
  return static_cast<int>(RendererExit::kRetired);
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) {
  using lockstep::router::RendererExit;
  const auto arguments = lockstep::router::ArgumentsFrom(argc, argv);
  struct stat input {};
  if (!arguments || fstat(STDIN_FILENO, &input) != 0 || !S_ISSOCK(input.st_mode)) {
    std::fprintf(stderr, "lockstep-template-renderer is started by lockstep-router\n");
    return static_cast<int>(RendererExit::kMisused);
  }
  close(lockstep::router::kProgramFd);
  if (!lockstep::router::EnterCage(arguments->limits))
    _exit(static_cast<int>(RendererExit::kMisused));
  // Destructors of what a template left behind are not worth running.
  _exit(lockstep::router::Serve(arguments->cpu_seconds));
}
