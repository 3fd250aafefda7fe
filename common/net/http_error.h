#pragma once

#include <boost/beast/http/error.hpp>

// Include this in few .cc files only: Beast is slow to compile.
namespace lockstep {

// True if the received bytes are not HTTP. False if the connection ended or failed.
inline bool IsMalformedHttp(const boost::system::error_code& error) {
  namespace http = boost::beast::http;
  return error && error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

}  // namespace lockstep
