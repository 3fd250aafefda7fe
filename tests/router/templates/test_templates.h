#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "router/templates/renderer_pool.h"
#include "router/text/chat_template.h"

namespace lockstep::testing {

// The template "default" with these tokens; an empty token is not there.
router::TemplateSource SourceOf(const std::string& text, const std::string& bos_token = "<s>",
                                const std::string& eos_token = "</s>");

// One process at a time, and limits that a slow machine keeps.
router::RendererPoolConfig TestRenderers();

// Renders in a process, which all callers with the same source share.
absl::StatusOr<std::unique_ptr<const router::ChatTemplate>> LoadTestTemplate(
    const router::TemplateSource& source);

}  // namespace lockstep::testing
