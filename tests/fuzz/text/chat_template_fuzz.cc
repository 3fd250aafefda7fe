// A chat template from anywhere (up to the first zero byte) with extra arguments (behind it): it
// renders in its process, or is refused. The process may end in any way; this one may not.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "router/templates/renderer_frames.h"
#include "router/templates/renderer_pool.h"

namespace {

// Where it is beside this program, in the build's folder and in the bundle of tests/fuzz/bundle.
std::string RendererPath() {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path() / "bin" / "lockstep-template-renderer";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::router;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  ParseAnswer(input).status().IgnoreError();

  static const std::string renderer = RendererPath();
  RendererPoolConfig config;
  config.program = renderer;
  config.max_processes = 1;
  config.spare_processes = 0;
  config.limits.load_time = absl::Seconds(1);
  const auto caged = CagedTemplate::Start(
      config, {.templates = {{"default", std::string(input.substr(0, zero))}},
               .special_tokens_json = R"({"bos_token": "<s>", "eos_token": "</s>"})"});
  const auto expected = [](const absl::Status& status) {
    return status.ok() || absl::IsInvalidArgument(status);
  };
  if (!expected(caged.status())) abort();
  if (!caged.ok()) return 0;
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief.", ""}, {"user", " Hi ", "ann"}, {"assistant", "", ""}};
  ChatTemplate::RenderOptions options;
  if (zero != std::string_view::npos) options.extra_arguments_json = input.substr(zero + 1);
  if (!expected((*caged)->Render(messages, options).status())) abort();
  return 0;
}
