#include "cli/bench/load/http_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <latch>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/bench/load/sse_scanner.h"
#include "common/runtime/named_thread.h"
#include "common/shown_text.h"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxErrorBytes = 4 << 10;  // of an error answer
constexpr char kAbandoned[] = "given up";

struct Job {
  BenchRequest request;
  RequestRecord record;
  Transport::Done done;
};

// The message of an error answer, or the beginning of its body.
std::string ErrorText(const std::string& body) {
  constexpr size_t kMaxBytes = 100;
  return OpenAiErrorMessage(body).value_or(body.substr(0, kMaxBytes));
}

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

// A thread and its connections. The private methods run on the thread.
class HttpThread {
 public:
  HttpThread(const Address& address, const TransportOptions& options, const LoadClock& clock)
      : address_(address), options_(options), clock_(clock), guard_(io_.get_executor()) {
    thread_ = NamedThread("bench-http", [this] {
      native_ = pthread_self();
      started_.count_down();
      io_.run();
    });
    started_.wait();
  }
  ~HttpThread() {
    guard_.reset();
    thread_.join();
  }

  void Post(Job job) {
    asio::post(io_, [this, job = std::make_shared<Job>(std::move(job))] { Begin(*job); });
  }
  void Abandon() {
    asio::post(io_, [this] {
      for (const std::shared_ptr<Connection>& connection : busy_) connection->Abandon();
    });
  }
  double ThreadSeconds() const {
    clockid_t clock_id;
    timespec used = {};
    if (pthread_getcpuclockid(native_, &clock_id) != 0) return 0.0;
    clock_gettime(clock_id, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }

 private:
  class Connection : public std::enable_shared_from_this<Connection> {
   public:
    explicit Connection(HttpThread& owner) : owner_(owner), stream_(owner.io_) {}

    void Run(Job job) {
      job_ = std::move(job);
      scanner_ = SseScanner();
      body_.clear();
      job_.record.sent = owner_.clock_.Now();
      request_ = {http::verb::post,
                  owner_.options_.chat ? "/v1/chat/completions" : "/v1/completions", 11};
      request_.set(http::field::host, FormatAddress(owner_.address_));
      request_.set(http::field::content_type, "application/json");
      if (!owner_.options_.api_key.empty()) {
        request_.set(http::field::authorization, "Bearer " + owner_.options_.api_key);
      }
      request_.body() = BenchRequestJson(job_.request, owner_.options_);
      request_.prepare_payload();
      stream_.expires_after(Nanoseconds(owner_.options_.timeout_seconds));
      if (connected_) return Write();
      stream_.async_connect(owner_.Endpoints(),
                            [self = shared_from_this()](error_code error, const auto&) {
                              if (error) return self->Fail("connect", error);
                              self->connected_ = true;
                              error_code ignored;
                              self->stream_.socket().set_option(tcp::no_delay(true), ignored);
                              self->Write();
                            });
    }
    void Abandon() {
      abandoned_ = true;
      stream_.close();
    }

   private:
    void Write() {
      http::async_write(stream_, request_, [self = shared_from_this()](error_code error, size_t) {
        if (error) return self->FailUnlessStale("send", error);
        self->parser_.emplace();
        self->parser_->body_limit(boost::none);
        http::async_read_header(self->stream_, self->buffer_, *self->parser_,
                                [self](error_code failed, size_t) {
                                  if (failed) return self->FailUnlessStale("receive", failed);
                                  self->was_used_ = true;
                                  self->Read();
                                });
      });
    }

    void Read() {
      if (parser_->is_done() || scanner_.failed()) return Finish();
      // The rest of a very long error is not needed.
      if (body_.size() >= kMaxErrorBytes) return Finish();
      if (job_.record.pieces.size() > kMaxPieces) return Fail("the answer has too many pieces");
      // The stream's own timer never expires while the server keeps sending.
      if (owner_.clock_.Now() - job_.record.sent >= owner_.options_.timeout_seconds) {
        return Fail("receive", beast::error::timeout);
      }
      parser_->get().body().data = bytes_;
      parser_->get().body().size = sizeof(bytes_);
      http::async_read_some(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, size_t) {
                              if (error == http::error::need_buffer) error = {};
                              if (error) return self->Fail("receive", error);
                              self->TakeBytes();
                              self->Read();
                            });
    }

    void TakeBytes() {
      const std::string_view bytes(bytes_, sizeof(bytes_) - parser_->get().body().size);
      if (parser_->get().result_int() != 200) {
        body_.append(bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, body_.size())));
        return;
      }
      const uint32_t num_pieces = scanner_.Feed(bytes);
      if (num_pieces == 0) return;
      job_.record.pieces.insert(job_.record.pieces.end(), num_pieces, owner_.clock_.Now());
    }

    void Finish() {
      RequestRecord& record = job_.record;
      record.prompt_tokens = scanner_.prompt_tokens();
      record.output_tokens = scanner_.output_tokens();
      record.cached_tokens = scanner_.cached_tokens();
      if (parser_->get().result_int() != 200) {
        record.error = fmt::format("HTTP {}: {}", parser_->get().result_int(), ErrorText(body_));
      } else if (scanner_.failed()) {
        record.error = scanner_.error();
      } else if (!scanner_.error().empty()) {
        record.error = "error in the stream: " + scanner_.error();
      } else if (!scanner_.done() || record.output_tokens == 0) {
        record.error = scanner_.done() ? "the stream had no usage" : "the stream broke off";
      }
      End(parser_->is_done() && parser_->keep_alive());
    }

    // A server may close a connection that was idle for a while.
    void FailUnlessStale(const char* what, error_code error) {
      const bool is_stale = was_used_ && !abandoned_ && error != beast::error::timeout;
      if (!is_stale) return Fail(what, error);
      stream_.close();
      owner_.Replace(shared_from_this(), std::move(job_));
    }
    void Fail(const char* what, error_code error) {
      Fail(abandoned_ ? kAbandoned
           : error == beast::error::timeout
               ? fmt::format("no answer within {:g} s", owner_.options_.timeout_seconds)
           : error == http::error::partial_message || error == http::error::end_of_stream
               ? "the stream broke off"
               : fmt::format("{}: {}", what, error.message()));
    }
    void Fail(std::string error) {
      job_.record.error = std::move(error);
      End(/*usable=*/false);
    }
    void End(bool usable) {
      job_.record.end = owner_.clock_.Now();
      job_.record.error = OneLine(job_.record.error, kMaxShownErrorBytes);
      if (!usable) stream_.close();
      stream_.expires_never();
      Job job = std::move(job_);
      owner_.Release(shared_from_this(), usable && !abandoned_);
      job.done(std::move(job.record));
    }

    HttpThread& owner_;
    beast::tcp_stream stream_;
    beast::flat_buffer buffer_;
    http::request<http::string_body> request_;
    std::optional<http::response_parser<http::buffer_body>> parser_;
    Job job_;
    SseScanner scanner_;
    std::string body_;  // of an error
    bool connected_ = false;
    bool was_used_ = false;  // an answer has come over this connection before
    bool abandoned_ = false;
    char bytes_[kReadBytes];
  };

  void Begin(Job& job) {
    std::shared_ptr<Connection> connection;
    if (idle_.empty()) {
      connection = std::make_shared<Connection>(*this);
    } else {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    busy_.push_back(connection);
    connection->Run(std::move(job));
  }
  void Replace(const std::shared_ptr<Connection>& connection, Job job) {
    busy_.remove(connection);
    busy_.push_back(std::make_shared<Connection>(*this));
    busy_.back()->Run(std::move(job));
  }
  void Release(const std::shared_ptr<Connection>& connection, bool usable) {
    busy_.remove(connection);
    if (usable) idle_.push_back(connection);
  }
  const tcp::resolver::results_type& Endpoints() {
    if (!endpoints_) {
      error_code error;
      endpoints_ = tcp::resolver(io_).resolve(address_.host, std::to_string(address_.port), error);
    }
    return *endpoints_;
  }

  const Address address_;
  const TransportOptions options_;
  const LoadClock& clock_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::optional<tcp::resolver::results_type> endpoints_;
  std::list<std::shared_ptr<Connection>> busy_;
  std::vector<std::shared_ptr<Connection>> idle_;
  std::latch started_{1};
  pthread_t native_ = {};
  NamedThread thread_;
};

class HttpTransport final : public Transport {
 public:
  HttpTransport(const Address& address, const TransportOptions& options, const LoadClock& clock) {
    for (uint32_t i = 0; i < options.num_threads; ++i) {
      threads_.push_back(std::make_unique<HttpThread>(address, options, clock));
    }
  }
  ~HttpTransport() override { HttpTransport::Abandon(); }

  void Send(BenchRequest request, double scheduled, Done done) override {
    Job job = {.request = std::move(request), .record = {}, .done = std::move(done)};
    job.record.scheduled = scheduled;
    threads_[next_++ % threads_.size()]->Post(std::move(job));
  }
  void Abandon() override {
    for (const auto& thread : threads_) thread->Abandon();
  }
  std::vector<double> ThreadSeconds() const override {
    std::vector<double> seconds;
    for (const auto& thread : threads_) seconds.push_back(thread->ThreadSeconds());
    return seconds;
  }

 private:
  std::vector<std::unique_ptr<HttpThread>> threads_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace

std::string BenchRequestJson(const BenchRequest& request, const TransportOptions& options) {
  std::string prompt;
  if (options.chat) {
    nlohmann::json messages = nlohmann::json::array();
    for (const BenchMessage& message : request.messages) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    prompt = "\"messages\":" + messages.dump();
  } else if (!request.messages.empty()) {
    std::string text;
    for (const BenchMessage& message : request.messages) text += message.content + "\n";
    prompt = "\"prompt\":" + nlohmann::json(text).dump();
  } else {
    prompt = fmt::format("\"prompt\":[{}]", fmt::join(request.token_ids, ","));
  }
  std::string sampling = fmt::format("\"temperature\":{}", options.sampling.temperature);
  // Servers may refuse fields that they do not know, so send only necessary fields.
  if (options.sampling.top_p < 1) sampling += fmt::format(",\"top_p\":{}", options.sampling.top_p);
  if (options.sampling.top_k > 0) sampling += fmt::format(",\"top_k\":{}", options.sampling.top_k);
  return fmt::format(
      "{{\"model\":{},{},\"max_tokens\":{},{},\"ignore_eos\":true,\"stream\":true,"
      "\"stream_options\":{{\"include_usage\":true}}}}",
      nlohmann::json(options.model).dump(), prompt, request.max_tokens, sampling);
}

std::unique_ptr<Transport> MakeHttpTransport(const Address& address,
                                             const TransportOptions& options,
                                             const LoadClock& clock) {
  return std::make_unique<HttpTransport>(address, options, clock);
}

}  // namespace lockstep::cli
