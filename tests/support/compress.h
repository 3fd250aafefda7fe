#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

namespace lockstep::testing {

// What zlib calls the window's bits, which say the format too.
inline constexpr int kZlib = 15;
inline constexpr int kGzip = 15 + 16;
inline constexpr int kRawDeflate = -15;

inline std::string Compressed(std::string_view text, int format) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  // zlib reads only, but has no const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace lockstep::testing
