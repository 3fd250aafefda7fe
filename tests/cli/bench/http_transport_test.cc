#include "cli/bench/load/http_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <istream>

#include "common/runtime/named_thread.h"

namespace lockstep::cli {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kHead[] = "HTTP/1.1 200 OK\r\n";
constexpr char kPiece[] = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
constexpr char kEnd[] =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

std::string Answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}
std::string Complete(const std::string& body) { return Answer("200 OK", body); }

// A server that gives each request the next of its answers, and then does what the answer says.
struct Scripted {
  std::string answer;
  bool closes = true;  // the connection, after the answer
};
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<Scripted> script)
      : acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        script_(std::move(script)) {
    thread_ = NamedThread("scripted", [this] { Serve(); });
  }

  Address address() const {
    return {.host = "127.0.0.1", .port = acceptor_.local_endpoint().port()};
  }
  int num_connections() const { return num_connections_; }

 private:
  void Serve() {
    std::optional<tcp::socket> socket;
    for (const Scripted& scripted : script_) {
      if (!socket) {
        socket.emplace(acceptor_.accept());
        ++num_connections_;
      }
      if (!ReadRequest(*socket)) return;
      error_code ignored;
      boost::asio::write(*socket, boost::asio::buffer(scripted.answer), ignored);
      if (scripted.closes) socket.reset();
    }
    // Until the client has read everything.
    if (socket) ReadRequest(*socket);
  }
  static bool ReadRequest(tcp::socket& socket) {
    boost::asio::streambuf buffer;
    error_code error;
    boost::asio::read_until(socket, buffer, "\"include_usage\":true}}", error);
    return !error;
  }

  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  const std::vector<Scripted> script_;
  std::atomic<int> num_connections_{0};
  NamedThread thread_;
};

class HttpTransportTest : public ::testing::Test {
 protected:
  void Connect(const Address& address, double timeout_seconds = 60) {
    transport_ = MakeHttpTransport(
        address, {.model = "m", .timeout_seconds = timeout_seconds, .num_threads = 1}, clock_);
  }
  RequestRecord Ask() {
    std::promise<RequestRecord> done;
    transport_->Send({.token_ids = {3}, .max_tokens = 2}, 0.0,
                     [&](RequestRecord record) { done.set_value(std::move(record)); });
    return done.get_future().get();
  }

  const LoadClock clock_;
  std::unique_ptr<Transport> transport_;
};

TEST_F(HttpTransportTest, AnAnswerHasItsPiecesAndTheServersCounts) {
  const ScriptedServer server({{Complete(std::string(kPiece) + kPiece + kEnd)}});
  Connect(server.address());
  const RequestRecord record = Ask();
  EXPECT_EQ(record.error, "");
  EXPECT_THAT(record.pieces, SizeIs(2));
  EXPECT_EQ(record.prompt_tokens, 4);
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_LE(record.sent, record.pieces[0]);
  EXPECT_LE(record.pieces[1], record.end);
}

TEST_F(HttpTransportTest, AConnectionIsUsedAgain) {
  const std::string answer = Complete(std::string(kPiece) + kEnd);
  const ScriptedServer server({{answer, false}, {answer, true}});
  Connect(server.address());
  EXPECT_EQ(Ask().error, "");
  EXPECT_EQ(Ask().error, "");
  EXPECT_EQ(server.num_connections(), 1);
}

TEST_F(HttpTransportTest, AConnectionThatTheServerClosedMeanwhileIsReplaced) {
  const std::string answer = Complete(std::string(kPiece) + kEnd);
  const ScriptedServer server({{answer, true}, {answer, true}});
  Connect(server.address());
  EXPECT_EQ(Ask().error, "");
  EXPECT_EQ(Ask().error, "");
  EXPECT_EQ(server.num_connections(), 2);
}

TEST_F(HttpTransportTest, AStreamThatBreaksOffIsAnError) {
  const ScriptedServer server({{kHead + std::string("Content-Length: 500\r\n\r\n") + kPiece},
                               {Complete(kPiece)},
                               {Complete("data: [DONE]\n\n")}});
  Connect(server.address());
  EXPECT_EQ(Ask().error, "the stream broke off");
  EXPECT_EQ(Ask().error, "the stream broke off");
  EXPECT_EQ(Ask().error, "the stream had no usage");
}

TEST_F(HttpTransportTest, ErrorsSayWhatTheServerSaid) {
  const ScriptedServer server(
      {{Answer("429 Too Many Requests", "{\"error\":{\"message\":\"busy now\"}}")},
       {Answer("502 Bad Gateway", "oops")},
       {Complete(std::string(kPiece) + "data: {\"error\":{\"message\":\"worker lost\"}}\n\n")}});
  Connect(server.address());
  EXPECT_EQ(Ask().error, "HTTP 429: busy now");
  EXPECT_EQ(Ask().error, "HTTP 502: oops");
  EXPECT_EQ(Ask().error, "error in the stream: worker lost");
}

TEST_F(HttpTransportTest, AServerThatFallsSilentTimesOut) {
  const ScriptedServer server(
      {{kHead + std::string("Content-Length: 500\r\n\r\n") + kPiece, false}});
  Connect(server.address(), 0.05);
  EXPECT_THAT(Ask().error, HasSubstr("no answer within 0.05 s"));
}

// Sends the same bytes again and again, until the client has had enough.
class EndlessServer {
 public:
  explicit EndlessServer(std::string head, std::string bytes)
      : acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        thread_("endless", [this, head = std::move(head), bytes = std::move(bytes)] {
          tcp::socket socket = acceptor_.accept();
          error_code error;
          boost::asio::write(socket, boost::asio::buffer(head), error);
          while (!error)
            num_bytes_ += boost::asio::write(socket, boost::asio::buffer(bytes), error);
        }) {}

  Address address() const {
    return {.host = "127.0.0.1", .port = acceptor_.local_endpoint().port()};
  }
  size_t num_bytes() const { return num_bytes_; }

 private:
  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  std::atomic<size_t> num_bytes_ = 0;
  NamedThread thread_;
};

const std::string kEndlessHead = kHead + std::string("Content-Type: text/event-stream\r\n\r\n");

TEST_F(HttpTransportTest, AnEndlessLineEndsTheRequest) {
  const EndlessServer server(kEndlessHead + "data: ", std::string(size_t{64} << 10, 'x'));
  Connect(server.address(), 600);
  EXPECT_EQ(Ask().error, "a line has more than 1048576 bytes");
  // Besides the line, some of it lay in the sockets.
  EXPECT_LT(server.num_bytes(), size_t{32} << 20);
}

TEST_F(HttpTransportTest, AnEndlessAnswerDoesNotOutliveTheTimeout) {
  const EndlessServer server(kEndlessHead, kPiece);
  Connect(server.address(), 0.2);
  EXPECT_EQ(Ask().error, "no answer within 0.2 s");
}

TEST_F(HttpTransportTest, AnEndlessErrorIsCut) {
  const EndlessServer server("HTTP/1.1 500 Oops\r\n\r\n", "no\x1b[2J\n");
  Connect(server.address(), 600);
  const std::string error = Ask().error;
  EXPECT_THAT(error, HasSubstr("HTTP 500: no[2J no[2J"));
  EXPECT_LE(error.size(), kMaxShownErrorBytes);
}

TEST_F(HttpTransportTest, NobodyThereIsAnError) {
  Connect({.host = "127.0.0.1", .port = 1});
  EXPECT_THAT(Ask().error, HasSubstr("connect: "));
}

TEST_F(HttpTransportTest, AbandonEndsWhatIsUnderWay) {
  const ScriptedServer server(
      {{kHead + std::string("Content-Length: 500\r\n\r\n") + kPiece, false}});
  Connect(server.address());
  std::promise<RequestRecord> done;
  transport_->Send({.token_ids = {3}}, 0.0,
                   [&](RequestRecord record) { done.set_value(std::move(record)); });
  while (server.num_connections() == 0) {
  }
  transport_->Abandon();
  EXPECT_EQ(done.get_future().get().error, "given up");
}

}  // namespace
}  // namespace lockstep::cli
