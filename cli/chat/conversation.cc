#include "cli/chat/conversation.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace lockstep::cli {

std::vector<Conversation::Turn> Conversation::Messages() const {
  std::vector<Turn> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  return messages;
}

void Conversation::FillPrompt(lockstep::v1::ChatPrompt* prompt) const {
  for (const Turn& turn : Messages()) {
    lockstep::v1::ChatMessage* const message = prompt->add_messages();
    message->set_role(turn.role);
    message->set_content(turn.content);
  }
}

std::string Conversation::ToJson() const {
  using Json = nlohmann::ordered_json;
  Json messages = Json::array();
  for (const Turn& turn : Messages()) {
    messages.push_back({{"role", turn.role}, {"content", turn.content}});
  }
  return Json{{"messages", std::move(messages)}}.dump(2, ' ', false,
                                                      Json::error_handler_t::replace) +
         "\n";
}

std::string Conversation::ToText() const {
  std::string out;
  for (const Turn& turn : Messages()) {
    out += fmt::format("{}[{}]\n{}\n", out.empty() ? "" : "\n", turn.role, turn.content);
  }
  return out;
}

absl::Status Conversation::SaveTo(const std::string& path) const {
  if (path.empty()) return InvalidArgument("expected the name of a file: /save FILE");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    return MakeError(
        errno == EEXIST ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kUnavailable,
        "{}: {}", path, std::strerror(errno));
  }
  const std::string text = path.ends_with(".json") ? ToJson() : ToText();
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    done += static_cast<size_t>(count);
  }
  const int error = errno;
  close(file);
  if (done == text.size()) return absl::OkStatus();
  return Unavailable("{}: {}", path, std::strerror(error));
}

}  // namespace lockstep::cli
