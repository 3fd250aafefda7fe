#pragma once

#include <absl/status/statusor.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "common/net/tls/tls_files.h"
#include "common/runtime/mutex.h"
#include "common/status.h"

namespace lockstep {

// The TLS settings of a server's new connections. They are made of files that may be replaced while
// the process runs. `Context` is a type of a TLS library. Used from any thread.
template <typename Context>
class ReloadedTls {
 public:
  using Make = absl::StatusOr<std::shared_ptr<Context>> (*)(const TlsFiles&);

  // `log_name` begins log lines: "TLS". Errors of `make` name the file.
  ReloadedTls(std::string log_name, TlsFiles files, Make make)
      : log_name_(std::move(log_name)), files_(std::move(files)), make_(make) {}

  // Call this first.
  absl::Status Load() {
    MutexLock lock(mutex_);
    seen_ = StampsOf(files_);
    LOCKSTEP_ASSIGN_OR_RETURN(context_, make_(files_));
    return absl::OkStatus();
  }

  // The settings from the current files. If these cannot be used, the previous settings; that is
  // logged once. Costs a few system calls unless a file changed.
  std::shared_ptr<Context> Current() {
    MutexLock lock(mutex_);
    // Stamps come before reading, so that a change in between is seen next time.
    if (const TlsFileStamps now = StampsOf(files_); now != seen_) {
      seen_ = now;
      if (auto context = make_(files_); context.ok()) {
        context_ = *std::move(context);
        spdlog::info("{}: took new files", log_name_);
      } else {
        spdlog::error("{}: kept the old files: {}", log_name_, Message(context.status()));
      }
    }
    return context_;
  }

 private:
  const std::string log_name_;
  const TlsFiles files_;
  const Make make_;
  Mutex mutex_;
  TlsFileStamps seen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
