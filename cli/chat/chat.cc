#include "cli/chat/chat.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "cli/chat/chat_options.h"
#include "cli/chat/commands.h"
#include "cli/chat/conversation.h"
#include "cli/chat/line_source.h"
#include "cli/common/environment.h"
#include "cli/common/errors.h"
#include "cli/common/interrupt_signal.h"
#include "cli/common/private_folder.h"
#include "cli/common/terminal.h"
#include "common/check.h"
#include "common/runtime/named_thread.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

// While the object exists, Ctrl-C tells `stop` to stop.
class InterruptWatch {
 public:
  InterruptWatch(InterruptSignal* interrupt, std::stop_source stop)
      : done_fd_(eventfd(0, EFD_CLOEXEC)) {
    LOCKSTEP_CHECK(done_fd_ >= 0, "eventfd failed");
    thread_ = NamedThread("interrupt", [interrupt, stop, done = done_fd_]() mutable {
      pollfd waiting[] = {{done, POLLIN, 0}, {interrupt->fd(), POLLIN, 0}};
      while (poll(waiting, 2, -1) < 0) {
      }
      if (interrupt->Take()) stop.request_stop();
    });
  }
  ~InterruptWatch() {
    eventfd_write(done_fd_, 1);
    thread_.join();
    close(done_fd_);
  }

 private:
  const int done_fd_;
  NamedThread thread_;
};

class Chat {
 public:
  Chat(const ChatOptions& options, InterruptSignal* interrupt)
      : client_(FormatAddress(options.server.address), options.client),
        request_(options.MakeRequest()),
        interrupt_(interrupt),
        paint_{.on = WantsColours(STDOUT_FILENO)} {
    conversation_.SetSystem(options.system);
  }

  absl::Status Greet();
  // Runs until the input ends or asks to quit. Returns the exit code.
  int Run(LineSource& source);

 private:
  // False when the chat must end.
  bool Handle(const ChatCommand& command);
  void Save(const std::string& path);
  void Ask(const std::string& message);
  absl::StatusOr<router::Answer> Generate(const lockstep::v1::GenerateRequest& request,
                                          std::string& text);
  void TellHowItEnded(const router::Answer& answer);
  void Note(const std::string& text);

  router::GenerationClient client_;
  const lockstep::v1::GenerateRequest request_;
  InterruptSignal* const interrupt_;  // null: the input or the output is no terminal
  const bool to_terminal_ = isatty(STDOUT_FILENO) != 0;
  const Paint paint_;
  Conversation conversation_;
  int exit_code_ = 0;
};

// Shows a note to the user. Without a terminal it goes to stderr, so that stdout has only the
// answers.
void Chat::Note(const std::string& text) {
  if (interrupt_ != nullptr) {
    std::printf("%s\n", paint_.Dim(WithoutControls(text)).c_str());
  } else {
    std::fprintf(stderr, "lockstep chat: %s\n", WithoutControls(text).c_str());
  }
}

absl::Status Chat::Greet() {
  const absl::StatusOr<lockstep::v1::Model> model = client_.GetModel(absl::Seconds(10));
  if (model.status().code() == absl::StatusCode::kUnavailable) {
    return Unavailable("{}\nno server? `lockstep serve MODEL` starts one", Message(model.status()));
  }
  if (!model.ok()) return model.status();
  if (interrupt_ != nullptr) Note(model->id() + ". /help lists commands, Ctrl-D ends");
  return absl::OkStatus();
}

int Chat::Run(LineSource& source) {
  std::string input;
  for (;;) {
    std::fflush(stdout);
    const LineSource::Result result = ReadInput(source, input);
    if (result == LineSource::Result::kEnd) return exit_code_;
    if (result == LineSource::Result::kInterrupted || input.empty()) continue;
    if (!Handle(ParseChatCommand(input))) return exit_code_;
  }
}

bool Chat::Handle(const ChatCommand& command) {
  switch (command.kind) {
    case ChatCommandKind::kMessage:
      Ask(command.text);
      return true;
    case ChatCommandKind::kHelp:
      std::fputs(ChatHelpText().c_str(), stdout);
      return true;
    case ChatCommandKind::kReset:
      conversation_.Reset();
      Note("a new chat");
      return true;
    case ChatCommandKind::kSystem:
      Note(command.text.empty() ? "no system message" : "system message set");
      conversation_.SetSystem(command.text);
      return true;
    case ChatCommandKind::kSave:
      Save(command.text);
      return true;
    case ChatCommandKind::kQuit:
      return false;
    case ChatCommandKind::kUnknown:
      Note(UnknownCommandText(command.text));
      return true;
  }
  return true;
}

void Chat::Save(const std::string& path) {
  const absl::Status status = conversation_.SaveTo(path);
  Note(status.ok() ? "saved to " + path : Message(status));
}

absl::StatusOr<router::Answer> Chat::Generate(const lockstep::v1::GenerateRequest& request,
                                              std::string& text) {
  std::stop_source stop;
  std::optional<InterruptWatch> watch;
  if (interrupt_ != nullptr) {
    interrupt_->Take();  // an earlier Ctrl-C is not for this answer
    watch.emplace(interrupt_, stop);
  }
  return client_.Generate(
      request, absl::InfiniteDuration(),
      [&](const lockstep::v1::GenerateResponse& response) {
        const std::string& delta = response.delta().text();
        text += delta;
        std::fputs((to_terminal_ ? WithoutControls(delta) : delta).c_str(), stdout);
        std::fflush(stdout);
      },
      stop.get_token());
}

void Chat::Ask(const std::string& message) {
  conversation_.AddUser(message);
  lockstep::v1::GenerateRequest request = request_;
  conversation_.FillPrompt(request.mutable_chat());
  // Reasoning is shown with its markers, as the model writes it.
  request.mutable_output()->set_split_reasoning(false);
  std::string text;
  const absl::StatusOr<router::Answer> answer = Generate(request, text);
  const bool only_calls = text.empty() && answer.ok() && !answer->outputs[0].tool_calls.empty();
  if ((answer.ok() || !text.empty()) && !only_calls) std::printf("\n");
  if (answer.ok()) {
    const std::string calls = answer->outputs[0].CallLines();
    std::fputs((to_terminal_ ? WithoutControls(calls) : calls).c_str(), stdout);
  }
  std::fflush(stdout);
  const bool stopped = answer.status().code() == absl::StatusCode::kCancelled;
  exit_code_ = answer.ok() || stopped ? 0 : 1;
  // A question without an answer is dropped, and the chat goes on.
  if (text.empty() && !answer.ok()) {
    conversation_.DropLast();
  } else {
    conversation_.AddAssistant(text);
  }
  if (answer.ok()) {
    TellHowItEnded(*answer);
  } else if (stopped) {
    Note("stopped");
  } else {
    std::fprintf(stderr, "lockstep chat: %s: %s\n",
                 absl::StatusCodeToString(answer.status().code()).c_str(),
                 WithoutControls(Message(answer.status())).c_str());
  }
}

void Chat::TellHowItEnded(const router::Answer& answer) {
  const lockstep::v1::FinishReason reason = answer.outputs[0].finish.reason();
  if (reason == lockstep::v1::FINISH_REASON_LENGTH)
    Note("the answer was cut at its length: --max-tokens, or what the context has room for");
  if (reason == lockstep::v1::FINISH_REASON_ABORT) Note("the answer was cut by the server");
  if (interrupt_ != nullptr) Note(answer.StatsLine());
}

std::string HistoryPath() {
  const std::filesystem::path folder =
      std::filesystem::path(UserFolder("XDG_STATE_HOME", ".local/state")) / "lockstep";
  return MakePrivateFolders(folder).ok() ? (folder / "history").string() : std::string();
}

}  // namespace

int RunChat(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<ChatOptions> options = ParseChatOptions(verb, words);
  if (!options.ok()) return PrintUsageError(verb.name, options.status());
  std::optional<InterruptSignal> interrupt;
  std::unique_ptr<LineSource> source;
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
    interrupt.emplace();
    source = MakeEditSource(&*interrupt, HistoryPath());
  } else {
    source = MakePipeSource();
  }
  Chat chat(*options, interrupt ? &*interrupt : nullptr);
  if (const absl::Status status = chat.Greet(); !status.ok())
    return PrintFailure(verb.name, status);
  return chat.Run(*source);
}

}  // namespace lockstep::cli
