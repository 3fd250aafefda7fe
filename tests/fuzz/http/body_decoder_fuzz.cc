// Compressed bodies of strangers: the first byte chooses the coding. Whatever comes, turns end,
// what is made stays within its bound and is counted, and nothing is counted at the end.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"
#include "router/http/exchanges/body_decoder.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;

void Decode(ContentCoding coding, std::string_view encoded) {
  ByteBudget budget(2 * kMaxBytes);
  {
    BodyDecoder decoder(coding, std::string(encoded), kMaxBytes, ByteBudget::Share(budget));
    // Every turn but the last reads or makes something.
    const size_t max_turns = encoded.size() + kMaxBytes / BodyDecoder::kTurnBytes + 4;
    absl::StatusOr<bool> whole = false;
    size_t num_turns = 0;
    while (whole.ok() && !*whole) {
      LOCKSTEP_CHECK(++num_turns <= max_turns, "{} turns", num_turns);
      whole = decoder.Turn();
    }
    LOCKSTEP_CHECK(budget.held_bytes() <= kMaxBytes + (size_t{64} << 10), "too much is held");
    if (whole.ok()) {
      const std::string body = decoder.TakeBody();
      LOCKSTEP_CHECK(body.size() <= kMaxBytes, "{} bytes", body.size());
      LOCKSTEP_CHECK(budget.held_bytes() >= body.size(), "bytes that nobody counts");
    } else {
      LOCKSTEP_CHECK(whole.status().code() == absl::StatusCode::kInvalidArgument ||
                         whole.status().code() == absl::StatusCode::kOutOfRange,
                     "a strange refusal");
    }
  }
  LOCKSTEP_CHECK(budget.held_bytes() == 0, "{} bytes stay", budget.held_bytes());
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::router::ContentCoding;
  if (size == 0) return 0;
  const std::string_view encoded(reinterpret_cast<const char*>(data) + 1, size - 1);
  lockstep::router::Decode(data[0] % 2 == 0 ? ContentCoding::kGzip : ContentCoding::kDeflate,
                           encoded);
  return 0;
}
