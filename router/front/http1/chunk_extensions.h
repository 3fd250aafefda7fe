#pragma once

#include <string_view>

namespace lockstep::router {

// True if `text`, which follows a chunk's size on its line, is empty or a list of extensions (RFC
// 9112, 7.1.1): `;name`, `;name=value`, `;name="quoted value"`. Control characters are refused,
// because another server might end the line at one.
bool AreChunkExtensions(std::string_view text);

}  // namespace lockstep::router
