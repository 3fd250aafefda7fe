#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/model_files/model_config.h"
#include "router/text/chat_template.h"
#include "router/text/tokenizer/tokenizer.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// Makes a chat template ready to render, where that is to happen.
using TemplateLoader =
    std::function<absl::StatusOr<std::unique_ptr<const ChatTemplate>>(const TemplateSource&)>;

// What the router must know of the model it serves; immutable, safe to use from any thread.
struct ServedModel {
  std::string id;  // what clients name it
  ModelConfig config;
  std::unique_ptr<const Tokenizer> tokenizer;
  uint64_t tokenizer_fingerprint = 0;                 // of its file
  std::unique_ptr<const ChatTemplate> chat_template;  // null: the model has none

  // `path` is a model folder or a *.gguf file. `id` may be empty: the file's or folder's name is
  // taken. `load_template` is called if the model has a chat template.
  static absl::StatusOr<ServedModel> Load(const std::string& path, std::string id,
                                          const TemplateLoader& load_template);

  ExpectedModel expected() const;
};

}  // namespace lockstep::router
