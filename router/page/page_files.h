#pragma once

#include <span>
#include <string_view>

namespace lockstep::router {

// A file of the page at "/". They lie beside this header; the build puts them into the program.
struct PageFile {
  std::string_view path;  // of a URL
  std::string_view content_type;
  std::string_view text;
};

std::span<const PageFile> PageFiles();

// What a browser may do with the page: load its own files and talk to its own server, no more.
inline constexpr std::string_view kPageSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace lockstep::router
