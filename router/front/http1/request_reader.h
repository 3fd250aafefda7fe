#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "router/front/connection/request_target.h"
#include "router/front/connection/stream_handler.h"
#include "router/limits/byte_budget.h"

// Include this in few .cc files only: Beast is slow to compile.
namespace lockstep::router {

// Beast's name for the body of a message. Passes the bytes to the handler of the request as they
// arrive.
struct PassedBody {
  struct value_type {
    StreamHandler* handler = nullptr;
  };

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>&, boost::system::error_code& error) { error = {}; }
    size_t put(const boost::asio::const_buffer& bytes, boost::system::error_code& error) {
      error = {};
      body_.handler->OnBody({static_cast<const char*>(bytes.data()), bytes.size()});
      return bytes.size();
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

// Turns the bytes of a connection into its requests, one after the other. Knows nothing of sockets.
//
// A proxy in front of the router must see the same requests in the same bytes. So everything that
// servers interpret differently is refused with 400: lines that end in a bare LF or CR, folded
// lines, space before a colon, transfer codings other than a single "chunked", a length together
// with chunks, two lengths, several hosts or none, control characters in chunk extensions. Fields
// after a chunked body are checked alike and then ignored. A few empty lines before a request are
// skipped.
class RequestReader {
 public:
  enum class State {
    kNothing,  // no byte of the next request
    kHeader,   // part of the header
    kOpens,    // the header: call Take and PassBodyTo. Returned once for each request
    kBody,     // the header and part of the body
    kRequest,  // all of it: call StartNext
    kRefused,  // malformed or over a limit; nothing after it can be read
  };
  struct Refusal {
    int http_status = 0;
    std::string message;
    bool head_only = false;  // send the answer without a body
  };
  struct Request {
    StreamRequest header;  // as over HTTP/2, with ":path" and ":authority" from the target
    bool keep_alive = false;
    bool http_1_0 = false;
  };

  // Counts incomplete headers in `memory`, which must outlive the object. Handlers count bodies.
  RequestReader(size_t max_body_bytes, ByteBudget& memory)
      : max_body_bytes_(max_body_bytes), pending_header_(&memory, &memory.strangers()) {}

  // A buffer for the next read, and the number of bytes that were read into it. No other call may
  // come between the two.
  boost::asio::mutable_buffer Prepare();
  void Commit(size_t num_bytes) { buffer_.commit(num_bytes); }
  void Append(boost::asio::const_buffer bytes) {
    buffer_.commit(boost::asio::buffer_copy(buffer_.prepare(bytes.size()), bytes));
  }
  size_t num_unread_bytes() const { return buffer_.size(); }
  // Parses as much as possible.
  State Advance();

  const Refusal& refusal() const { return refusal_; }
  // In kOpens.
  Request Take() { return std::exchange(request_, Request()); }
  // Call before Advance. The handler must live until StartNext, or until Advance is not called any
  // more.
  void PassBodyTo(StreamHandler& handler) { parser_->get().body().handler = &handler; }
  // In kRequest.
  void StartNext();

 private:
  State Read();
  State Current() const;
  std::string_view Unread() const {
    return {static_cast<const char*>(buffer_.data().data()), buffer_.size()};
  }
  bool SkipEmptyLines();
  bool OnHeader();
  Request ReadHeader(const RequestTarget& target) const;
  State Refuse(int http_status, std::string message);
  State RefuseUnread(const boost::system::error_code& error);

  const size_t max_body_bytes_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<PassedBody>> parser_;
  Request request_;                   // the current one, once its header is complete and until Take
  int num_empty_lines_ = 0;           // before the current request
  ByteBudget::Share pending_header_;  // counts an incomplete header
  Refusal refusal_;
};

}  // namespace lockstep::router
