#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "router/text/chat_template.h"

// The messages between router and renderer (renderer/frames.py), in the frames of
// common/caged/frame_io.h. Pure functions. The renderer's answers are not trusted.
namespace lockstep::router {

inline constexpr size_t kMaxJobBytes = size_t{64} << 20;
inline constexpr size_t kMaxAnswerBytes = kMaxRenderedBytes + 64;

// Whole frames. INVALID_ARGUMENT for a job of more than kMaxJobBytes.
std::string LoadFrame(const TemplateSource& source);
absl::StatusOr<std::string> RenderFrame(std::span<const ChatMessage> messages,
                                        const ChatTemplate::RenderOptions& options);

// The text, or INVALID_ARGUMENT with the template's message. INTERNAL for bytes that are no answer.
absl::StatusOr<std::string> ParseAnswer(std::string_view payload);

}  // namespace lockstep::router
