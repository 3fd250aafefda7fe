#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "router/text/chat_template.h"

namespace lockstep::router {

// Parses and renders with the template library, in this process and on the caller's thread. The
// library has no bounds: a template may loop without end, take all memory, overflow the stack or
// divide by zero. So only the renderer program (renderer_main.cc) uses this, and tests whose
// templates are known. A parsed template is safe to use from any thread.
//
// What is bounded here gives clear errors: output, range(), calls of macros in each other. Errors
// are INVALID_ARGUMENT; those of a template's line name it.
absl::StatusOr<std::unique_ptr<const ChatTemplate>> ParseTemplate(const TemplateSource& source);

}  // namespace lockstep::router
