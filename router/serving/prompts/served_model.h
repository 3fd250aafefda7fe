#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/model_config.h"
#include "router/calls/output_format.h"
#include "router/text/chat_template.h"
#include "router/text/tokenizer/tokenizer.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// Loads a chat template so that it can render. The loader decides where it renders.
using TemplateLoader =
    std::function<absl::StatusOr<std::unique_ptr<const ChatTemplate>>(const TemplateSource&)>;

// What the router must know about the model that it serves. Immutable. Safe to use from any thread.
struct ServedModel {
  std::string id;                    // the name that clients use
  std::vector<std::string> aliases;  // other names for it; kAnyModel stands for every name
  // Includes the tokenizer's end ids. The warnings cover all files of the model.
  ModelConfig config;
  std::unique_ptr<const Tokenizer> tokenizer;
  uint64_t tokenizer_fingerprint = 0;                 // of the tokenizer's file
  std::unique_ptr<const ChatTemplate> chat_template;  // null: the model has none
  // How it writes calls of tools and reasoning. Null: unknown.
  const OutputFormat* output_format = nullptr;

  // `path`: a model folder or a GGUF file. `id`: if empty, the name of the file or folder.
  // `load_template` is called if the model has a chat template. If it returns INVALID_ARGUMENT, the
  // model is served, and chats are refused with that reason. The output format is detected.
  static absl::StatusOr<ServedModel> Load(const std::string& path, std::string id,
                                          const TemplateLoader& load_template);

  // "auto": as it was detected. "none": unknown. Otherwise the name of a format. NOT_FOUND lists
  // the names.
  absl::Status SetOutputFormat(std::string_view name);

  ExpectedModel expected() const;
};

}  // namespace lockstep::router
