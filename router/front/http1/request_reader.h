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

#include "router/front/connection/exchange.h"
#include "router/front/connection/request_target.h"
#include "router/limits/byte_budget.h"

// Include this in few .cc files only: Beast is slow to compile.
namespace lockstep::router {

// The body of a request. It grows as bytes arrive; an announced length reserves nothing.
struct ArrivingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>&, boost::system::error_code& error) { error = {}; }
    size_t put(const boost::asio::const_buffer& bytes, boost::system::error_code& error) {
      error = {};
      body_.append(static_cast<const char*>(bytes.data()), bytes.size());
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
    kNothing,      // no byte of the next request
    kHeader,       // part of the header
    kBodyFollows,  // the header; a body follows. Returned once, before kBody
    kBody,         // the header and part of the body
    kRequest,      // all of it: call Take
    kRefused,      // malformed or over a limit; nothing after it can be read
  };
  struct Refusal {
    int http_status = 0;
    std::string message;
    bool head_only = false;  // send the answer without a body
  };
  struct Request {
    HttpRequest http;
    bool keep_alive = false;
    bool http_1_0 = false;
    bool head_only = false;  // send the answer without a body
  };

  // Counts bodies in `bodies` as they arrive. `bodies` must outlive the object.
  RequestReader(size_t max_body_bytes, ByteBudget& bodies)
      : max_body_bytes_(max_body_bytes),
        share_(bodies),
        pending_header_(&bodies, &bodies.strangers()) {}

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

  // In kBody: true if the client waits for "100 Continue". True once only.
  bool TakeExpectContinue() { return std::exchange(expects_continue_, false); }
  const Refusal& refusal() const { return refusal_; }
  // From kBodyFollows on: the request without its body.
  const Request& Header() const { return header_; }
  // In kRequest. The body stays counted until Release.
  Request Take();
  void Release() {
    share_.Resize(0);
    share_.ChargeTo(nullptr);
  }
  // Counts the body.
  ByteBudget::Share& share() { return share_; }

 private:
  State Read();
  State Current() const;
  std::string_view Unread() const {
    return {static_cast<const char*>(buffer_.data().data()), buffer_.size()};
  }
  bool SkipEmptyLines();
  bool OnHeader();
  Request ReadHeader(RequestTarget target) const;
  bool MakeRoom();
  State Refuse(int http_status, std::string message);
  State RefuseUnread(const boost::system::error_code& error);

  const size_t max_body_bytes_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<ArrivingBody>> parser_;
  Request header_;           // of the current request, once it is complete
  int num_empty_lines_ = 0;  // before the current request
  bool expects_continue_ = false;
  ByteBudget::Share share_;
  ByteBudget::Share pending_header_;  // counts an incomplete header
  Refusal refusal_;
};

}  // namespace lockstep::router
