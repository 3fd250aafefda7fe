#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "router/text/chat_template.h"

// What router and renderer say to each other over a socket pair. A frame is a length (4 bytes,
// little endian) and so many bytes; strings inside are written the same way. The router asks, the
// renderer (renderer/frames.py) gives one answer to each frame. Pure functions; the answer is read
// as foreign data.
namespace lockstep::router {

inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr size_t kMaxJobBytes = size_t{64} << 20;
inline constexpr size_t kMaxAnswerBytes = kMaxRenderedBytes + 64;
inline constexpr size_t kMaxErrorBytes = 512;  // of an answer that is an error; longer ones are cut

// Whole frames. A job of more than kMaxJobBytes is INVALID_ARGUMENT.
std::string LoadFrame(const TemplateSource& source);
absl::StatusOr<std::string> RenderFrame(std::span<const ChatMessage> messages,
                                        const ChatTemplate::RenderOptions& options);

// The payload's length, from a header of kFrameHeaderBytes.
size_t PayloadBytes(std::string_view header);

// A text, or INVALID_ARGUMENT with the template's message. INTERNAL for bytes that are no answer.
absl::StatusOr<std::string> ParseAnswer(std::string_view payload);

}  // namespace lockstep::router
