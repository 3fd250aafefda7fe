#include "tests/router/templates/test_templates.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace lockstep::testing {
namespace {

using router::CagedTemplate;
using router::ChatMessage;
using router::ChatTemplate;
using router::TemplateSource;

class SharedTemplate final : public ChatTemplate {
 public:
  explicit SharedTemplate(std::shared_ptr<const ChatTemplate> shared)
      : shared_(std::move(shared)) {}

  absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                     const RenderOptions& options) const override {
    return shared_->Render(messages, options);
  }

 private:
  const std::shared_ptr<const ChatTemplate> shared_;
};

// Tests and fuzz targets lie in folders beside that of the programs.
std::string RendererPath() {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path() / "bin" / "lockstep-template-renderer";
}

}  // namespace

TemplateSource SourceOf(const std::string& text, const std::string& bos_token,
                        const std::string& eos_token) {
  nlohmann::json tokens = nlohmann::json::object();
  if (!bos_token.empty()) tokens["bos_token"] = bos_token;
  if (!eos_token.empty()) tokens["eos_token"] = eos_token;
  return {.templates = {{"default", text}}, .special_tokens_json = tokens.dump()};
}

router::RendererPoolConfig TestRenderers() {
  router::RendererPoolConfig config;
  config.program = RendererPath();
  config.max_processes = 1;
  config.spare_processes = 0;
  config.limits.time = absl::Seconds(5);
  config.limits.load_time = absl::Seconds(30);
  return config;
}

absl::StatusOr<std::unique_ptr<const ChatTemplate>> LoadTestTemplate(const TemplateSource& source) {
  static auto* const loaded =
      new std::map<std::pair<std::map<std::string, std::string>, std::string>,
                   std::shared_ptr<const ChatTemplate>>();
  auto& shared = (*loaded)[{source.templates, source.special_tokens_json}];
  if (shared == nullptr) {
    auto started = CagedTemplate::Start(TestRenderers(), source);
    if (!started.ok()) return started.status();
    shared = *std::move(started);
  }
  return std::make_unique<SharedTemplate>(shared);
}

}  // namespace lockstep::testing
