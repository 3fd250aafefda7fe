#include "router/grpc/standard_services.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/grpc/reflection.h"

namespace lockstep::router {
namespace {

using Health = standard::HealthCheckResponse;

constexpr size_t kMaxServiceNameBytes = 200;
constexpr size_t kMaxRequestBytes = 4096;  // these services need no key
// Bytes of answers that may wait. A client that leaves more of them unread must wait as well.
constexpr size_t kMaxUnreadBytes = 16 << 10;

GrpcStatus Malformed() {
  return {.code = absl::StatusCode::kInvalidArgument, .message = "the message cannot be parsed"};
}

GrpcCall::Transport Bounded(GrpcCall::Transport transport) {
  transport.max_message_bytes = kMaxRequestBytes;
  return transport;
}

}  // namespace

// A call that needs no key. It is counted while it is open.
class StandardServices::OpenCall : public GrpcCall {
 public:
  OpenCall(StandardServices& services, GrpcCallStart start)
      : GrpcCall(Bounded(std::move(start.transport))),
        services_(services),
        connection_id_(start.connection_id),
        address_(start.address),
        is_counted_(services.AddCall(connection_id_)) {
    if (is_counted_) {
      ChargeToStrangers();
    } else {
      Finish({.code = absl::StatusCode::kResourceExhausted,
              .message = "too many such calls are open on this connection"});
    }
  }

  uint64_t connection_id() const { return connection_id_; }
  const ConnectionLimiter::AddressKey& address() const { return address_; }

 protected:
  void OnOver(bool /*finished*/) override {
    if (is_counted_) services_.RemoveCall(connection_id_);
  }

  StandardServices& services_;

 private:
  const uint64_t connection_id_;
  const ConnectionLimiter::AddressKey address_;
  const bool is_counted_;
};

// Takes the one message of the call and parses it.
class StandardServices::HealthCall : public OpenCall {
 public:
  using OpenCall::OpenCall;

 protected:
  // Called when asked_for_ has the name of the service.
  virtual void Answer() = 0;

  std::string asked_for_;

 private:
  void OnMessage(Message message) final {
    standard::HealthCheckRequest request;
    if (std::exchange(asked_, true) || !request.ParseFromString(message.bytes)) {
      return Finish(Malformed());
    }
    if (request.service().size() > kMaxServiceNameBytes) {
      return Finish({.code = absl::StatusCode::kInvalidArgument,
                     .message = fmt::format("service: expected at most {} bytes, got {}",
                                            kMaxServiceNameBytes, request.service().size())});
    }
    asked_for_ = request.service();
    Answer();
  }
  void OnHalfClose() final {
    if (!asked_) Finish(Malformed());
  }

  bool asked_ = false;
};

class StandardServices::Check final : public HealthCall {
 public:
  using HealthCall::HealthCall;

 private:
  void Answer() override {
    Health response;
    response.set_status(services_.HealthOf(asked_for_));
    if (response.status() == Health::SERVICE_UNKNOWN) {
      return Finish({.code = absl::StatusCode::kNotFound, .message = "service name unknown"});
    }
    const google::protobuf::MessageLite* const message = &response;
    SendLast({&message, 1});
  }
};

class StandardServices::Watch final : public HealthCall,
                                      public std::enable_shared_from_this<Watch> {
 public:
  using HealthCall::HealthCall;

  // Call from any thread when the watched state may have changed.
  void Tell() {
    MutexLock lock(mutex_);
    // A client that reads late gets only the last state.
    if (num_waiting_bytes() > 0 && told_.has_value()) {
      missed_ = true;
      return;
    }
    TellNow();
  }

 private:
  void Answer() override {
    if (!services_.AddWatcher(shared_from_this())) {
      return Finish({.code = absl::StatusCode::kResourceExhausted,
                     .message = "too many calls watch the health already"});
    }
    Tell();
  }
  void OnSent(bool /*awaited*/) override {
    MutexLock lock(mutex_);
    if (std::exchange(missed_, false)) TellNow();
  }
  void OnOver(bool finished) override {
    services_.RemoveWatcher(this);
    HealthCall::OnOver(finished);
  }

  void TellNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Health::ServingStatus now = services_.HealthOf(asked_for_);
    if (now == told_) return;
    told_ = now;
    Health response;
    response.set_status(now);
    Send(response);
  }

  Mutex mutex_;
  std::optional<Health::ServingStatus> told_ ABSL_GUARDED_BY(mutex_);  // the last state told
  bool missed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Answers one question after the other. If the client leaves answers unread, later questions wait
// as the bytes that came, which count in the budget.
class StandardServices::Reflection final : public OpenCall {
 public:
  Reflection(StandardServices& services, GrpcCallStart start)
      : OpenCall(services, std::move(start)), held_(&memory(), &memory().strangers()) {}

  bool WantsBody() const override { return waiting_.empty(); }
  bool IsConversation() const override { return true; }

 private:
  void OnMessage(Message message) override {
    if (waiting_.empty() && HasRoom()) return Answer(message.bytes);
    const size_t num_bytes = waiting_.size() + kMessagePrefixBytes + message.bytes.size();
    // The bytes are counted before the string grows.
    if (num_bytes > held_.bytes()) {
      const size_t room = std::max(num_bytes, 2 * held_.bytes());
      if (!held_.Resize(room)) {
        return Finish({.code = absl::StatusCode::kResourceExhausted,
                       .message = "too many bytes of other calls are in transit"});
      }
      waiting_.reserve(room);
    }
    char prefix[kMessagePrefixBytes];
    WriteMessagePrefix(message.bytes.size(), prefix);
    waiting_.append(prefix, kMessagePrefixBytes).append(message.bytes);
  }
  void OnHalfClose() override {
    no_more_ = true;
    AnswerWaiting();
  }
  void OnSent(bool /*awaited*/) override { AnswerWaiting(); }
  void OnOver(bool finished) override {
    Forget();
    OpenCall::OnOver(finished);
  }

  bool HasRoom() const { return num_waiting_bytes() <= kMaxUnreadBytes; }

  void Answer(std::string_view question) {
    standard::ReflectionRequest request;
    if (!request.ParseFromArray(question.data(), static_cast<int>(question.size()))) {
      return Finish(Malformed());
    }
    Send(Reflect(request, {services_.service_, "grpc.health.v1.Health"}));
  }

  void AnswerWaiting() {
    std::string_view rest = std::string_view(waiting_).substr(num_done_bytes_);
    while (!rest.empty() && HasRoom() && !over()) {
      // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): only whole messages wait
      const size_t num_bytes = ReadMessageSize(rest.data());
      Answer(rest.substr(kMessagePrefixBytes, num_bytes));
      rest.remove_prefix(kMessagePrefixBytes + num_bytes);
    }
    if (over()) return Forget();
    num_done_bytes_ = waiting_.size() - rest.size();
    if (!rest.empty()) return;
    Forget();
    if (no_more_) Finish({});
  }

  void Forget() {
    std::string().swap(waiting_);
    num_done_bytes_ = 0;
    held_.Resize(0);
  }

  std::string waiting_;        // questions, each after its message prefix
  size_t num_done_bytes_ = 0;  // how many of these are answered
  ByteBudget::Share held_;     // counts waiting_
  bool no_more_ = false;
};

void StandardServices::AddTo(GrpcServices& services) {
  services.Add("/grpc.health.v1.Health/Check", [this](GrpcCallStart start) {
    return std::make_shared<Check>(*this, std::move(start));
  });
  services.Add("/grpc.health.v1.Health/Watch", [this](GrpcCallStart start) {
    return std::make_shared<Watch>(*this, std::move(start));
  });
  if (!reflection_) return;
  for (const char* const version : {"v1", "v1alpha"}) {
    services.Add(fmt::format("/grpc.reflection.{}.ServerReflection/ServerReflectionInfo", version),
                 [this](GrpcCallStart start) {
                   return std::make_shared<Reflection>(*this, std::move(start));
                 });
  }
}

Health::ServingStatus StandardServices::HealthOf(const std::string& service) const {
  MutexLock lock(mutex_);
  if (service.empty()) return accepting_ ? Health::SERVING : Health::NOT_SERVING;
  if (service != service_) return Health::SERVICE_UNKNOWN;
  return serving_ && accepting_ ? Health::SERVING : Health::NOT_SERVING;
}

bool StandardServices::AddCall(uint64_t connection_id) {
  MutexLock lock(mutex_);
  size_t& num_calls = by_connection_[connection_id].num_calls;
  if (num_calls >= kMaxCallsOfConnection) return false;
  ++num_calls;
  return true;
}

void StandardServices::RemoveCall(uint64_t connection_id) {
  MutexLock lock(mutex_);
  const auto found = by_connection_.find(connection_id);
  if (--found->second.num_calls == 0) by_connection_.erase(found);
}

bool StandardServices::AddWatcher(const std::shared_ptr<Watch>& watch) {
  MutexLock lock(mutex_);
  size_t& of_connection = by_connection_[watch->connection_id()].num_watchers;
  if (watchers_.size() >= kMaxWatchers || of_connection >= kMaxWatchersOfConnection) return false;
  const auto of_address = by_address_.try_emplace(watch->address(), 0).first;
  if (of_address->second >= kMaxWatchersOfAddress) return false;
  ++of_connection;
  ++of_address->second;
  watchers_.emplace(watch.get(), watch);
  return true;
}

void StandardServices::RemoveWatcher(Watch* watch) {
  MutexLock lock(mutex_);
  if (watchers_.erase(watch) == 0) return;
  // The entry still exists, because the watcher's call is still counted.
  --by_connection_.find(watch->connection_id())->second.num_watchers;
  const auto of_address = by_address_.find(watch->address());
  if (--of_address->second == 0) by_address_.erase(of_address);
}

size_t StandardServices::num_watchers() const {
  MutexLock lock(mutex_);
  return watchers_.size();
}

void StandardServices::SetServing(bool serving, bool accepting) {
  std::vector<std::shared_ptr<Watch>> watchers;
  {
    MutexLock lock(mutex_);
    const bool changed = std::exchange(serving_, serving) != serving;
    if (std::exchange(accepting_, accepting) == accepting && !changed) return;
    for (const auto& [pointer, weak] : watchers_) {
      if (auto watch = weak.lock()) watchers.push_back(std::move(watch));
    }
  }
  for (const std::shared_ptr<Watch>& watch : watchers) watch->Tell();
}

}  // namespace lockstep::router
