#include "router/tracing/otlp_exporter.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/grpc/credentials.h"
#include "common/runtime/clock.h"
#include "common/runtime/logging.h"
#include "common/runtime/mutex.h"
#include "opentelemetry/trace_service.grpc.pb.h"
#include "tests/common/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace lockstep::router {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A collector on a free port, which answers as it is told.
class Receiver final : public wire::TraceService::Service {
 public:
  explicit Receiver(const TlsFiles& tls = {}) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", MakeServerCredentials(tls), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Receiver() override { Stop(); }

  void Stop() {
    Release();
    server_->Shutdown();
  }

  const std::string& address() const { return address_; }

  // The answers of the next calls; OK afterwards.
  void FailWith(std::vector<grpc::StatusCode> codes) {
    MutexLock lock(mutex_);
    codes_ = std::move(codes);
  }
  void Answer(const wire::ExportTraceServiceResponse& answer) {
    MutexLock lock(mutex_);
    answer_ = answer;
  }
  // Calls are not answered until Release.
  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void WaitForCalls(size_t count) {
    MutexLock lock(mutex_);
    while (sizes_.size() < count) changed_.Wait(mutex_);
  }
  // Spans of each call.
  std::vector<int> sizes() {
    MutexLock lock(mutex_);
    return sizes_;
  }

  grpc::Status Export(grpc::ServerContext* /*context*/,
                      const wire::ExportTraceServiceRequest* request,
                      wire::ExportTraceServiceResponse* response) override {
    MutexLock lock(mutex_);
    sizes_.push_back(request->resource_spans(0).scope_spans(0).spans_size());
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    *response = answer_;
    const size_t call = sizes_.size() - 1;
    if (call >= codes_.size()) return grpc::Status::OK;
    return grpc::Status(codes_[call], "as told");
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<grpc::StatusCode> codes_ ABSL_GUARDED_BY(mutex_);
  wire::ExportTraceServiceResponse answer_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> sizes_ ABSL_GUARDED_BY(mutex_);
};

class OtlpExporterTest : public ::testing::Test {
 protected:
  OtlpExporterTest() {
    config_.endpoint = receiver_.address();
    config_.queue = {.max_spans = 100, .max_batch_spans = 10, .max_wait = absl::Milliseconds(1)};
    config_.min_backoff = absl::Milliseconds(1);
    config_.max_backoff = absl::Milliseconds(2);
    config_.export_timeout = kPatience;
    config_.flush_grace = kPatience;
  }

  // Spans that are there already when the exporter starts.
  void Start(int num_spans) {
    EXPECT_TRUE(config_.Validate().ok()) << config_.Validate();
    queue_ = std::make_shared<SpanQueue>(config_.queue, metrics_);
    Push(num_spans);
    exporter_.emplace(config_, queue_, metrics_);
  }
  void Push(int num_spans) {
    for (int i = 0; i < num_spans; ++i) queue_->Push(Span());
  }
  double Exported() const { return metrics_.exported_total->Value(); }
  double Dropped(SpanDrop why) const {
    return metrics_.dropped_total.at(static_cast<size_t>(why))->Value();
  }
  double DroppedInAll() const {
    double count = 0;
    for (const prometheus::Counter* counter : metrics_.dropped_total) count += counter->Value();
    return count;
  }
  void ExpectDropsBecome(SpanDrop why, double count) {
    const Instant give_up = MonotonicNow() + kPatience;
    while (Dropped(why) < count && MonotonicNow() < give_up) std::this_thread::yield();
    EXPECT_EQ(Dropped(why), count);
  }

  Receiver receiver_;
  TracingConfig config_;
  prometheus::Registry registry_;
  SpanMetrics metrics_{registry_, "a-model"};
  std::shared_ptr<SpanQueue> queue_;
  std::optional<OtlpExporter> exporter_;
};

TEST_F(OtlpExporterTest, SendsEverythingInBatchesBeforeItEnds) {
  Start(25);
  exporter_.reset();
  EXPECT_THAT(receiver_.sizes(), ElementsAre(10, 10, 5));
  EXPECT_EQ(Exported(), 25);
  EXPECT_EQ(DroppedInAll(), 0);
}

TEST_F(OtlpExporterTest, SendsTheSameAgainWhenTheCollectorIsBusy) {
  receiver_.FailWith({grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DATA_LOSS});
  Start(3);
  receiver_.WaitForCalls(3);
  exporter_.reset();
  EXPECT_THAT(receiver_.sizes(), ElementsAre(3, 3, 3));
  EXPECT_EQ(Exported(), 3);
  EXPECT_EQ(DroppedInAll(), 0);
}

TEST_F(OtlpExporterTest, GivesUpAfterSomeAttempts) {
  config_.max_attempts = 3;
  // Only a full batch, or the end, makes the exporter send.
  config_.queue.max_wait = kPatience;
  receiver_.FailWith(std::vector(3, grpc::StatusCode::UNAVAILABLE));
  Start(10);
  ExpectDropsBecome(SpanDrop::kUnreachable, 10);
  Push(2);
  exporter_.reset();
  EXPECT_THAT(receiver_.sizes(), ElementsAre(10, 10, 10, 2));
  EXPECT_EQ(Exported(), 2);
}

TEST_F(OtlpExporterTest, WhatIsRefusedIsNotSentAgain) {
  receiver_.FailWith({grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::UNIMPLEMENTED,
                      grpc::StatusCode::RESOURCE_EXHAUSTED});
  Start(30);
  exporter_.reset();
  EXPECT_THAT(receiver_.sizes(), ElementsAre(10, 10, 10));
  EXPECT_EQ(Dropped(SpanDrop::kRefused), 30);
  EXPECT_EQ(Exported(), 0);
}

TEST_F(OtlpExporterTest, ACollectorThatTakesEverySecondBatchFillsNoLog) {
  constexpr auto kNo = grpc::StatusCode::INVALID_ARGUMENT;
  receiver_.FailWith({kNo, grpc::StatusCode::OK, kNo, grpc::StatusCode::OK, kNo});
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLogging("info").ok());
  Start(60);
  receiver_.WaitForCalls(6);
  exporter_.reset();
  ASSERT_TRUE(InitLogging("off").ok());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("does not take spans: INVALID_ARGUMENT"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  EXPECT_EQ(Dropped(SpanDrop::kRefused), 30);
}

TEST_F(OtlpExporterTest, CountsWhatTheCollectorDidNotTake) {
  wire::ExportTraceServiceResponse answer;
  answer.mutable_partial_success()->set_rejected_spans(2);
  receiver_.Answer(answer);
  Start(5);
  exporter_.reset();
  EXPECT_EQ(Exported(), 3);
  EXPECT_EQ(Dropped(SpanDrop::kRefused), 2);
}

TEST_F(OtlpExporterTest, ACollectorCannotInventNumbers) {
  for (const int64_t number :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    const double before = Exported() + DroppedInAll();
    wire::ExportTraceServiceResponse answer;
    answer.mutable_partial_success()->set_rejected_spans(number);
    receiver_.Answer(answer);
    Start(5);
    exporter_.reset();
    EXPECT_EQ(Exported() + DroppedInAll() - before, 5) << number;
  }
}

TEST_F(OtlpExporterTest, AHugeAnswerIsNotRead) {
  wire::ExportTraceServiceResponse answer;
  answer.mutable_partial_success()->set_error_message(std::string(1 << 20, 'x'));
  receiver_.Answer(answer);
  Start(5);
  exporter_.reset();
  EXPECT_EQ(Dropped(SpanDrop::kRefused), 5);
}

TEST_F(OtlpExporterTest, WithoutACollectorSpansAreDropped) {
  receiver_.Stop();
  config_.max_attempts = 2;
  Start(5);
  ExpectDropsBecome(SpanDrop::kUnreachable, 5);
  Push(25);
  exporter_.reset();
  EXPECT_EQ(DroppedInAll(), 30);
  EXPECT_EQ(Exported(), 0);
}

TEST_F(OtlpExporterTest, ACollectorThatHangsFillsTheQueueAndNothingElse) {
  receiver_.Hold();
  config_.flush_grace = absl::ZeroDuration();
  Start(10);
  receiver_.WaitForCalls(1);
  Push(150);
  EXPECT_EQ(Dropped(SpanDrop::kQueueFull), 50);
  // Waits neither for the answer nor for the timeout of the call.
  const Instant before = MonotonicNow();
  exporter_.reset();
  EXPECT_LT(MonotonicNow() - before, kPatience);
  EXPECT_EQ(Dropped(SpanDrop::kShutdown), 110);
  EXPECT_EQ(Exported(), 0);
}

TEST_F(OtlpExporterTest, ACallEndsAfterItsTimeout) {
  receiver_.Hold();
  config_.export_timeout = absl::Milliseconds(50);
  config_.max_attempts = 2;
  Start(3);
  ExpectDropsBecome(SpanDrop::kUnreachable, 3);
  receiver_.Release();
  exporter_.reset();
  EXPECT_EQ(DroppedInAll(), 3);
}

TEST_F(OtlpExporterTest, ChecksTheCertificateOfTheCollector) {
  const ::lockstep::testing::TestAuthority authority("authority");
  const ::lockstep::testing::TestAuthority stranger("stranger");
  const TempFolder folder;
  ::lockstep::testing::TestAuthority::Write(folder, "collector", authority.Issue("collector"));
  const std::string path = folder.path() + "/";
  folder.Write("ca.pem", authority.cert_pem());
  folder.Write("stranger.pem", stranger.cert_pem());
  Receiver guarded({.cert_path = path + "collector.pem",
                    .key_path = path + "collector.key",
                    .client_ca_path = ""});
  config_.endpoint = guarded.address();
  config_.tls.ca_path = path + "ca.pem";
  Start(2);
  exporter_.reset();
  EXPECT_THAT(guarded.sizes(), ElementsAre(2));
  EXPECT_EQ(Exported(), 2);
  config_.tls.ca_path = path + "stranger.pem";
  Start(3);
  exporter_.reset();
  EXPECT_THAT(guarded.sizes(), ElementsAre(2));
  EXPECT_EQ(DroppedInAll(), 3);
}

TEST(TracingConfigTest, SaysEverythingThatIsWrong) {
  EXPECT_TRUE(TracingConfig().Validate().ok());
  TracingConfig config;
  config.endpoint = "nowhere";
  config.sample_ratio = std::numeric_limits<double>::quiet_NaN();
  config.service_name = "";
  const std::string text(config.Validate().message());
  EXPECT_THAT(text, ::testing::HasSubstr("otlp_endpoint: "));
  EXPECT_THAT(text, ::testing::HasSubstr("trace_sample_ratio: must be from 0 to 1"));
  EXPECT_THAT(text, ::testing::HasSubstr("trace_service_name: must have 1 to 256 bytes"));
  config = TracingConfig();
  config.sample_ratio = 1.5;
  EXPECT_FALSE(config.Validate().ok());
}

}  // namespace
}  // namespace lockstep::router
