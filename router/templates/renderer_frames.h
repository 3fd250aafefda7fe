#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "router/text/chat_template.h"

// The messages between router and renderer over a socket pair. A frame is a length (4 bytes, little
// endian) and that many bytes; strings inside are written the same way. The router sends jobs, and
// the renderer (renderer/frames.py) answers each with one frame. Pure functions. The renderer's
// answers are not trusted.
namespace lockstep::router {

inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr size_t kMaxJobBytes = size_t{64} << 20;
inline constexpr size_t kMaxAnswerBytes = kMaxRenderedBytes + 64;
inline constexpr size_t kMaxErrorBytes = 512;  // the renderer cuts longer errors

// Whole frames. INVALID_ARGUMENT for a job of more than kMaxJobBytes.
std::string LoadFrame(const TemplateSource& source);
absl::StatusOr<std::string> RenderFrame(std::span<const ChatMessage> messages,
                                        const ChatTemplate::RenderOptions& options);

// The payload's length, from a header of kFrameHeaderBytes.
size_t PayloadBytes(std::string_view header);

// The text, or INVALID_ARGUMENT with the template's message. INTERNAL for bytes that are no answer.
absl::StatusOr<std::string> ParseAnswer(std::string_view payload);

}  // namespace lockstep::router
