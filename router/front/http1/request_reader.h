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

// Include it in few .cc files only: Beast is heavy.
namespace lockstep::router {

// The body of a request, which grows as its bytes come: whoever announces many has none yet.
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

// From the bytes of a connection to its requests, one after the other. Knows nothing of sockets.
//
// Whatever stands in front of the router must see the same requests in the same bytes, so
// everything that is read in more than one way elsewhere is refused with 400: lines that end in a
// bare LF or CR, folded lines, space before a colon, transfer codings but a single "chunked", a
// length beside one or twice, several hosts or none, control characters in a chunk's extensions.
// Fields behind a chunked body are checked likewise, and then ignored. A few empty lines before a
// request say nothing.
class RequestReader {
 public:
  enum class State {
    kNothing,      // of the next request
    kHeader,       // part of it
    kBodyFollows,  // the header, and none of the body that it announces: once, before kBody
    kBody,         // the header, and part of the body
    kRequest,      // all of it: Take it
    kRefused,      // no request, or one that is not read; nothing after it can be read either
  };
  struct Refusal {
    int http_status = 0;
    std::string message;
    bool head_only = false;  // of the answer
  };
  struct Request {
    HttpRequest http;
    bool keep_alive = false;
    bool http_1_0 = false;
    bool head_only = false;  // of the answer
  };

  // Bodies are counted in `bodies`, which outlives the object, as they arrive.
  RequestReader(size_t max_body_bytes, ByteBudget& bodies)
      : max_body_bytes_(max_body_bytes),
        share_(bodies),
        pending_header_(&bodies, &bodies.strangers()) {}

  // Room for what is read next, and how much of it came; nothing else is called in between.
  boost::asio::mutable_buffer Prepare();
  void Commit(size_t num_bytes) { buffer_.commit(num_bytes); }
  void Append(boost::asio::const_buffer bytes) {
    buffer_.commit(boost::asio::buffer_copy(buffer_.prepare(bytes.size()), bytes));
  }
  size_t num_unread_bytes() const { return buffer_.size(); }
  // Reads as far as it gets.
  State Advance();

  // In kBody: the client sends no body before it is told to. Said once.
  bool TakeExpectContinue() { return std::exchange(expects_continue_, false); }
  const Refusal& refusal() const { return refusal_; }
  // In kBodyFollows and after it: the request without its body.
  const Request& Header() const { return header_; }
  // In kRequest. Its body stays counted until Release.
  Request Take();
  void Release() {
    share_.Resize(0);
    share_.ChargeTo(nullptr);
  }
  // What counts the body.
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
  Request header_;           // of the request at hand, once its header is there
  int num_empty_lines_ = 0;  // before the request at hand
  bool expects_continue_ = false;
  ByteBudget::Share share_;
  ByteBudget::Share pending_header_;  // what has come of a header
  Refusal refusal_;
};

}  // namespace lockstep::router
