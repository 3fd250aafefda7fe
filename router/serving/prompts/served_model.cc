#include "router/serving/prompts/served_model.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <span>
#include <utility>

#include "common/model_files/tokenizer/tokenizer_fingerprint.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

// Replaces a template that cannot be used: refuses every chat. Text prompts are not affected.
class UnusableTemplate final : public ChatTemplate {
 public:
  explicit UnusableTemplate(const absl::Status& reason)
      : error_(InvalidArgument("the model's chat template cannot be used, and texts can: {}",
                               Message(reason))) {}

  absl::StatusOr<std::string> Render(std::span<const ChatMessage>,
                                     const RenderOptions&) const override {
    return error_;
  }

 private:
  const absl::Status error_;
};

// "models/Tiny.Q4_1.gguf" is named "Tiny.Q4_1", and "models/Tiny-1.5/" is named "Tiny-1.5". "." is
// named as the current folder.
std::string NameOf(const std::string& path) {
  std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return (normal.extension() == ".gguf" ? normal.stem() : normal.filename()).string();
}

}  // namespace

absl::StatusOr<ServedModel> ServedModel::Load(const std::string& path, std::string id,
                                              const TemplateLoader& load_template) {
  ServedModel model;
  LOCKSTEP_ASSIGN_OR_RETURN(model.config, LoadModelConfig(path));
  LOCKSTEP_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::Load(path));
  LOCKSTEP_ASSIGN_OR_RETURN(model.tokenizer_fingerprint, LoadTokenizerFingerprint(path));
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<std::string>& warnings = model.config.warnings;
  warnings.insert(warnings.end(), tokenizer.warnings().begin(), tokenizer.warnings().end());
  if (tokenizer.vocab_size() > model.config.vocab_size) {
    warnings.push_back(fmt::format(
        "{}: the tokenizer has {} tokens and the model's vocabulary only {}: prompts with one of "
        "the others are refused",
        path, tokenizer.vocab_size(), model.config.vocab_size));
  }
  if (const std::optional<TokenId> end = tokenizer.eos_token_id()) {
    AddEndIds({&*end, 1}, fmt::format("{}: eos_token of the tokenizer", path), &model.config);
  }
  if (!tokenizer.templates().templates.empty()) {
    absl::StatusOr<std::unique_ptr<const ChatTemplate>> loaded =
        load_template(tokenizer.templates());
    if (absl::IsInvalidArgument(loaded.status())) {
      spdlog::warn("{}: chats are refused: {}", path, Message(loaded.status()));
      loaded = std::make_unique<UnusableTemplate>(loaded.status());
    }
    if (!loaded.ok()) return Annotate(loaded.status(), path);
    model.chat_template = *std::move(loaded);
  }
  model.output_format = DetectOutputFormat(tokenizer);
  model.id = id.empty() ? NameOf(path) : std::move(id);
  return model;
}

absl::Status ServedModel::SetOutputFormat(std::string_view name) {
  if (name == "auto") return absl::OkStatus();
  output_format = nullptr;
  if (name == "none") return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(output_format, FindOutputFormat(name));
  return absl::OkStatus();
}

ExpectedModel ServedModel::expected() const {
  return {.model_fingerprint = config.Fingerprint(),
          .tokenizer_fingerprint = tokenizer_fingerprint,
          .vocab_size = config.vocab_size};
}

}  // namespace lockstep::router
