#include "common/rpc/rpc_message_reader.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

constexpr size_t kFirstReserveBytes = 4 << 10;

}  // namespace

absl::Status RpcMessageReader::Take(std::string_view& data, std::vector<std::string>& messages) {
  while (!data.empty() && num_allowed_ > 0) {
    if (num_prefix_bytes_ < kPrefixBytes) {
      const size_t taken = std::min(kPrefixBytes - num_prefix_bytes_, data.size());
      std::copy_n(data.begin(), taken, prefix_.begin() + num_prefix_bytes_);
      num_prefix_bytes_ += taken;
      data.remove_prefix(taken);
      if (num_prefix_bytes_ < kPrefixBytes) break;
      LOCKSTEP_RETURN_IF_ERROR(ReadPrefix());
    }
    const std::string_view part = data.substr(0, num_wanted_bytes_ - message_.size());
    Append(part);
    data.remove_prefix(part.size());
    if (message_.size() < num_wanted_bytes_) break;
    num_prefix_bytes_ = 0;
    if (num_allowed_ != kAll) --num_allowed_;
    messages.push_back(std::exchange(message_, {}));
  }
  return absl::OkStatus();
}

absl::Status RpcMessageReader::ReadPrefix() {
  if (prefix_[0] != 0) return Unimplemented("messages must not be compressed");
  num_wanted_bytes_ = uint32_t{prefix_[1]} << 24 | uint32_t{prefix_[2]} << 16 |
                      uint32_t{prefix_[3]} << 8 | prefix_[4];
  if (num_wanted_bytes_ <= max_message_bytes_) return absl::OkStatus();
  return ResourceExhausted("a message has {} bytes, more than {}", num_wanted_bytes_,
                           max_message_bytes_);
}

void RpcMessageReader::Append(std::string_view part) {
  const size_t num_bytes = message_.size() + part.size();
  if (num_bytes > message_.capacity()) {
    const size_t room = std::max({num_bytes, 2 * message_.capacity(), kFirstReserveBytes});
    message_.reserve(std::min(num_wanted_bytes_, room));
  }
  message_.append(part);
}

}  // namespace lockstep
