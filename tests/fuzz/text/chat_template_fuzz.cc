// A chat template from anywhere (up to the first zero byte) with extra arguments (behind it): it
// renders or is refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::router::ChatMessage;
  using lockstep::router::ChatTemplate;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto parsed = ChatTemplate::Parse(input.substr(0, zero), "<s>", "</s>");
  if (!parsed.ok()) return 0;
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief.", ""}, {"user", " Hi ", "ann"}, {"assistant", "", ""}};
  ChatTemplate::RenderOptions options;
  if (zero != std::string_view::npos) options.extra_arguments_json = input.substr(zero + 1);
  (*parsed)->Render(messages, options).status().IgnoreError();
  return 0;
}
