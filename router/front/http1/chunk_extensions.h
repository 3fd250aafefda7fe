#pragma once

#include <string_view>

namespace lockstep::router {

// Whether what stands between the size of a chunk and its line's end is empty or a list of
// extensions (RFC 9112, 7.1.1): `;name`, `;name=value`, `;name="quoted value"`. A control character
// in one of them might end the line for another server.
bool AreChunkExtensions(std::string_view text);

}  // namespace lockstep::router
