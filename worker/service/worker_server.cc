#include "worker/service/worker_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "common/grpc/credentials.h"
#include "common/status.h"
#include "worker/service/description.h"

namespace lockstep::worker {
namespace {

constexpr char kServiceName[] = "lockstep.worker.v1.Worker";
// Time for final statuses to reach the clients.
constexpr std::chrono::milliseconds kFlushTime(500);

void Configure(const WorkerServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // A router that vanished without closing its stream loses its lease within 20 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The router pings too. Its pings must not count as abuse.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 64);
  // A silent client must not hold a connection that a router wants.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
}

}  // namespace

WorkerServer::WorkerServer(std::unique_ptr<StepRunner> runner, const ForwardModelInfo& info,
                           uint64_t incarnation, WorkerMetrics& metrics,
                           const WorkerServiceOptions& options)
    : runner_(std::move(runner)),
      executor_thread_(*runner_, WorkerService::QueueCapacity(options)),
      service_(MakeDescription(info, runner_->bounds(), options.max_steps_in_flight, incarnation),
               executor_thread_, metrics, options) {}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    std::unique_ptr<StepRunner> runner, const ForwardModelInfo& info, uint64_t incarnation,
    WorkerMetrics& metrics, const WorkerServerOptions& options) {
  std::unique_ptr<WorkerServer> server(
      new WorkerServer(std::move(runner), info, incarnation, metrics, options.service));
  LOCKSTEP_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

absl::Status WorkerServer::Listen(const WorkerServerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(acceptor_,
                            ConnectionAcceptor::Listen(options.listen, options.max_connections));
  if (IsUnixAddress(options.listen)) {
    unix_endpoint_ = options.listen;
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(address_, ParseAddress(options.listen));
    address_.port = acceptor_->port();
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options, builder);
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      Type::FROM_FD, MakeServerCredentials(options.tls));
  service_.Register(builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return Unavailable("cannot serve {}", options.listen);
  server_->GetHealthCheckService()->SetServingStatus("", true);
  server_->GetHealthCheckService()->SetServingStatus(kServiceName, true);
  service_.Start();
  acceptor_->Start([this](int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    connections_->HandleNewConnection(&connection);
  });
  return absl::OkStatus();
}

std::string WorkerServer::endpoint() const {
  return unix_endpoint_.empty() ? FormatAddress(address_) : unix_endpoint_;
}

bool WorkerServer::Shutdown(absl::Duration grace) {
  service_.BeginDrain();
  server_->GetHealthCheckService()->SetServingStatus(kServiceName, false);
  const bool clean = service_.WaitUntilNoLease(grace);
  acceptor_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + kFlushTime);
  service_.Stop();
  server_.reset();
  acceptor_.reset();
  return clean;
}

WorkerServer::~WorkerServer() {
  if (server_ != nullptr) Shutdown(absl::ZeroDuration());
}

}  // namespace lockstep::worker
