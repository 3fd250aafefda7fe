// A worker that lies: every field of a result is set to its extremes, one after the other. The
// router ends the lease or goes on, its books add up, every request ends, and no client sees a
// token that is none.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Reflection;
using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::FakeModelOptions;
using ::lockstep::router::testing::ReplicaTest;

enum class Extreme { kLeast, kOne, kMost };
constexpr Extreme kExtremes[] = {Extreme::kLeast, Extreme::kOne, Extreme::kMost};
constexpr int kMany = 2000;

template <typename T>
T Value(Extreme extreme) {
  if (extreme == Extreme::kOne) return T{1};
  return extreme == Extreme::kLeast ? std::numeric_limits<T>::lowest()
                                    : std::numeric_limits<T>::max();
}

void SetScalar(google::protobuf::Message& message, const FieldDescriptor& field, Extreme extreme) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, Value<uint32_t>(extreme));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, Value<uint64_t>(extreme));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field,
                                 extreme == Extreme::kOne ? std::numeric_limits<float>::quiet_NaN()
                                                          : Value<float>(extreme));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, extreme != Extreme::kLeast);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&message, &field, Value<int32_t>(extreme));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field,
                                  extreme == Extreme::kLeast ? "" : std::string(100'000, '\xff'));
    default:
      FAIL() << "a field of a new type: " << field.full_name();
  }
}

void AddScalar(google::protobuf::Message& message, const FieldDescriptor& field, Extreme extreme) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.AddUInt32(&message, &field, Value<uint32_t>(extreme));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.AddFloat(&message, &field, Value<float>(extreme));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.AddEnumValue(&message, &field, Value<int32_t>(extreme));
    default:
      FAIL() << "a repeated field of a new type: " << field.full_name();
  }
}

using Lie = std::function<void(google::protobuf::Message&)>;

std::vector<Lie> LiesOf(const google::protobuf::Descriptor& type);

// A lie about a part of the message: of the one that is there, and of one that is added.
void AddLiesOfPart(const FieldDescriptor& field, std::vector<Lie>& lies) {
  for (const Lie& lie : LiesOf(*field.message_type())) {
    if (!field.is_repeated()) {
      lies.push_back([&field, lie](google::protobuf::Message& message) {
        lie(*message.GetReflection()->MutableMessage(&message, &field));
      });
      continue;
    }
    lies.push_back([&field, lie](google::protobuf::Message& message) {
      const Reflection& reflection = *message.GetReflection();
      if (reflection.FieldSize(message, &field) == 0) return;
      lie(*reflection.MutableRepeatedMessage(&message, &field, 0));
    });
    lies.push_back([&field, lie](google::protobuf::Message& message) {
      lie(*message.GetReflection()->AddMessage(&message, &field));
    });
  }
}

std::vector<Lie> LiesOf(const google::protobuf::Descriptor& type) {
  std::vector<Lie> lies;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    lies.push_back([&field](google::protobuf::Message& message) {
      message.GetReflection()->ClearField(&message, &field);
    });
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddLiesOfPart(field, lies);
      continue;
    }
    for (const Extreme extreme : kExtremes) {
      if (!field.is_repeated()) {
        lies.push_back([&field, extreme](google::protobuf::Message& message) {
          SetScalar(message, field, extreme);
        });
        continue;
      }
      for (const int count : {1, kMany}) {
        lies.push_back([&field, extreme, count](google::protobuf::Message& message) {
          for (int n = 0; n < count; ++n) AddScalar(message, field, extreme);
        });
      }
      // In place of what was true, so that the counts still fit.
      lies.push_back([&field, extreme](google::protobuf::Message& message) {
        const Reflection& reflection = *message.GetReflection();
        const int size = reflection.FieldSize(message, &field);
        reflection.ClearField(&message, &field);
        for (int n = 0; n < size; ++n) AddScalar(message, field, extreme);
      });
    }
  }
  return lies;
}

class ReplicaLiesTest : public ReplicaTest {
 protected:
  std::unique_ptr<Client> SubmitDescribed(std::vector<TokenId> prompt) {
    const std::shared_ptr<Request> request = MakeRequest(std::move(prompt), 6);
    request->sampling.num_logprobs = 2;
    request->sampling.num_prompt_logprobs = 1;
    return Submit(request);
  }

  void Attach() {
    worker_.Restart();
    Connect();
  }

  // The step after `num_before` others is lied about.
  void TellLie(const Lie& lie, int num_before) {
    Attach();
    const auto plain = Submit({1, 2, 3}, 6);
    const auto described = SubmitDescribed({4, 5, 6, 7});
    RunSteps(num_before);
    std::optional<LinkResult> event = link_.RunNext();
    ASSERT_TRUE(event.has_value());
    lie(event->result);
    InboxBatch batch;
    batch.link_events.push_back(*std::move(event));
    replica_.Process(std::move(batch));
    replica_.CheckIntegrity();
    if (replica_.board().worker_state() != WorkerState::kReady) Attach();
    RunUntilIdle();
    // A worker that still says what does not fit, because it was believed before, is given up.
    if (replica_.board().worker_state() != WorkerState::kReady) Attach();
    RunUntilIdle();
    replica_.CheckIntegrity();
    for (Client* const client : {plain.get(), described.get()}) {
      client->Read();
      if (!client->end.has_value()) {
        Cancel(*client, CancelCause::kClient);
        client->Read();
      }
      ASSERT_TRUE(client->end.has_value());
      for (const TokenId token : client->tokens[0]) {
        EXPECT_LT(token, FakeModelOptions().vocab_size);
      }
      EXPECT_LT(client->end->message().size(), 1000u);
      EXPECT_NE(client->end->code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(client->end->code(), absl::StatusCode::kUnauthenticated);
    }
    LoseWorker();
    EXPECT_EQ(replica_.board().status().live_requests, 0u);
  }
};

TEST_F(ReplicaLiesTest, EveryFieldOfAResultAtItsExtremes) {
  const std::vector<Lie> lies = LiesOf(*worker::v1::StepResult::descriptor());
  EXPECT_GT(lies.size(), 200u);
  for (size_t i = 0; i < lies.size(); ++i) {
    for (const int num_before : {0, 3}) {
      SCOPED_TRACE(fmt::format("lie {}, after {} steps", i, num_before));
      ASSERT_NO_FATAL_FAILURE(TellLie(lies[i], num_before));
    }
  }
}

}  // namespace
}  // namespace lockstep::router
