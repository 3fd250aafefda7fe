#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "cli/chat/line_source.h"

namespace lockstep::cli {
namespace {

constexpr int kMaxHistoryLines = 1000;

// libedit passes its own object to callbacks. This object is its client data.
class EditSource final : public LineSource {
 public:
  EditSource(InterruptSignal* interrupt, std::string history_path)
      : interrupt_(interrupt), history_path_(std::move(history_path)) {
    // Characters beyond ASCII are read in the user's encoding, or else as UTF-8.
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = el_init("lockstep", stdin, stdout, stderr);
    history_ = history_init();
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &EditSource::Prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_GETCFN, &EditSource::GetCharacter);
    el_source(edit_, nullptr);  // the user's ~/.editrc
    history(history_, &event_, H_SETSIZE, kMaxHistoryLines);
    history(history_, &event_, H_SETUNIQUE, 1);
    if (!history_path_.empty()) history(history_, &event_, H_LOAD, history_path_.c_str());
  }

  ~EditSource() override {
    history_end(history_);
    el_end(edit_);
  }

  Result ReadLine(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    interrupted_ = false;
    el_resize(edit_);
    // Prepare the terminal before the prompt. libedit alone would do it after the prompt, and lose
    // a Ctrl-D that is typed in between.
    el_set(edit_, EL_PREP_TERM, 1);
    int length = 0;
    const char* const text = el_gets(edit_, &length);
    if (interrupted_ || text == nullptr || length <= 0) {
      std::fputs("\n", stdout);
      return interrupted_ ? Result::kInterrupted : Result::kEnd;
    }
    line.assign(text, static_cast<size_t>(length));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    Remember(line);
    return Result::kLine;
  }

 private:
  static EditSource* Self(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return static_cast<EditSource*>(self);
  }

  static char* Prompt(EditLine* edit) { return Self(edit)->prompt_.data(); }

  // 1: a character; 0: the end; -1: Ctrl-C.
  static int GetCharacter(EditLine* edit, wchar_t* out) { return Self(edit)->Get(out); }

  int Get(wchar_t* out) {
    std::mbstate_t state = {};
    for (;;) {
      pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_->fd(), POLLIN, 0}};
      if (poll(waiting, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return 0;
      }
      if (interrupt_->Take()) {
        interrupted_ = true;
        return -1;
      }
      char byte = 0;
      const ssize_t count = read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return 0;
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // more bytes of this character follow
      if (used != static_cast<size_t>(-1)) return 1;
      state = {};  // not a character: skip it
    }
  }

  void Remember(const std::string& line) {
    if (line.empty()) return;
    history(history_, &event_, H_ENTER, line.c_str());
    if (history_path_.empty()) return;
    // Create the file before libedit opens it, so that it never has another mode.
    const int file = open(history_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    fchmod(file, 0600);
    close(file);
    history(history_, &event_, H_SAVE, history_path_.c_str());
  }

  InterruptSignal* const interrupt_;
  const std::string history_path_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  HistEvent event_ = {};
  std::string prompt_;
  bool interrupted_ = false;
};

}  // namespace

std::unique_ptr<LineSource> MakeEditSource(InterruptSignal* interrupt, std::string history_path) {
  return std::make_unique<EditSource>(interrupt, std::move(history_path));
}

}  // namespace lockstep::cli
