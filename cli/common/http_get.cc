#include "cli/common/http_get.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "common/status.h"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint64_t kMaxBodyBytes = 16 << 20;  // /metrics of a thousand workers

}  // namespace

absl::StatusOr<HttpReply> HttpGet(const Address& address, const std::string& path,
                                  absl::Duration timeout, const std::string& api_key) {
  asio::io_context io(1);
  error_code error;
  const auto endpoints =
      asio::ip::tcp::resolver(io).resolve(address.host, std::to_string(address.port), error);
  if (error) return Unavailable("{}: {}", FormatAddress(address), error.message());
  beast::tcp_stream stream(io);
  stream.expires_after(absl::ToChronoNanoseconds(timeout));

  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host, FormatAddress(address));
  request.set(http::field::connection, "close");
  if (!api_key.empty()) request.set(http::field::authorization, "Bearer " + api_key);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxBodyBytes);
  // Asynchronous, because only such operations keep to the stream's timeout.
  stream.async_connect(endpoints, [&](error_code failed, const auto&) {
    if ((error = failed)) return;
    http::async_write(stream, request, [&](error_code failed_write, size_t) {
      if ((error = failed_write)) return;
      http::async_read(stream, buffer, parser,
                       [&](error_code failed_read, size_t) { error = failed_read; });
    });
  });
  io.run();
  if (error == beast::error::timeout) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "{}: no answer within {}",
                     FormatAddress(address), absl::FormatDuration(timeout));
  }
  if (error) return Unavailable("{}: {}", FormatAddress(address), error.message());
  return HttpReply{.status = static_cast<int>(parser.get().result_int()),
                   .body = std::move(parser.get().body())};
}

}  // namespace lockstep::cli
