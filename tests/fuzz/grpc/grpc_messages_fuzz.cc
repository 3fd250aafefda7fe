// The body of a stranger's call -> messages -> their measure -> the parser. The first byte says
// what the messages are, the second how large the pieces are that the body comes in. Memory is
// counted before it is used and given back at the end, and what is parsed takes no more than was
// measured.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "lockstep/v1/generation.pb.h"
#include "router/grpc/message_reader.h"
#include "router/serving/validation/wire_measure.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr uint32_t kContextTokens = 64;
constexpr size_t kMaxMessageBytes = 4 << 10;
constexpr size_t kMemoryBytes = 6 << 10;

const google::protobuf::Message& PrototypeOf(uint8_t kind) {
  const std::array<const google::protobuf::Message*, 6> prototypes = {
      &v1::GenerateRequest::default_instance(),   &v1::TokenizeRequest::default_instance(),
      &v1::DetokenizeRequest::default_instance(), &v1::AbortRequest::default_instance(),
      &v1::GetModelRequest::default_instance(),   &v1::ListModelsRequest::default_instance()};
  return *prototypes[kind % prototypes.size()];
}

void CheckMeasure(std::string_view bytes, const google::protobuf::Message& prototype) {
  static const std::vector<FieldBound> bounds = RequestBounds(RequestLimits(), kContextTokens);
  const absl::StatusOr<size_t> measured = MeasureMessage(bytes, *prototype.GetDescriptor(), bounds);
  if (!measured.ok()) {
    LOCKSTEP_CHECK(
        absl::IsInvalidArgument(measured.status()) || absl::IsUnimplemented(measured.status()),
        "{}", measured.status().ToString());
    return;
  }
  const std::unique_ptr<google::protobuf::Message> parsed(prototype.New());
  if (!parsed->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  LOCKSTEP_CHECK(parsed->SpaceUsedLong() <= *measured, "{} bytes were measured, {} are used",
                 *measured, parsed->SpaceUsedLong());
}

void Feed(std::string_view input) {
  const google::protobuf::Message& prototype = PrototypeOf(static_cast<uint8_t>(input[0]));
  const size_t piece_bytes = 1 + static_cast<uint8_t>(input[1]);
  input.remove_prefix(2);
  ByteBudget memory(kMemoryBytes);
  {
    MessageReader reader(kMaxMessageBytes, memory);
    reader.ChargeTo(&memory.strangers());
    bool failed = false;
    while (!input.empty() && !failed) {
      std::string_view piece = input.substr(0, piece_bytes);
      input.remove_prefix(piece.size());
      while (!piece.empty() && !failed) {
        const size_t num_left = piece.size();
        const MessageReader::State state = reader.Read(piece);
        LOCKSTEP_CHECK(memory.held_bytes() <= kMemoryBytes, "{} bytes", memory.held_bytes());
        failed = state != MessageReader::State::kMore && state != MessageReader::State::kMessage;
        if (state != MessageReader::State::kMessage) {
          LOCKSTEP_CHECK(failed || piece.empty(), "{} bytes are not read", piece.size());
          continue;
        }
        LOCKSTEP_CHECK(piece.size() < num_left, "a message without bytes");
        const MessageReader::Message message = reader.Take();
        LOCKSTEP_CHECK(message.bytes.size() <= kMaxMessageBytes, "{} bytes", message.bytes.size());
        LOCKSTEP_CHECK(message.held.bytes() >= message.bytes.size(), "bytes are not counted");
        CheckMeasure(message.bytes, prototype);
      }
    }
  }
  LOCKSTEP_CHECK(memory.held_bytes() == 0, "{} bytes stay counted", memory.held_bytes());
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The parser writes a line for every string that is not UTF-8.
  static const google::protobuf::LogSilencer silence;
  if (size >= 2) lockstep::router::Feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
