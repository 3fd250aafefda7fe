#include "router/auth/tenant_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/runtime/mapped_file.h"
#include "common/status.h"

namespace lockstep::router {

absl::StatusOr<std::unique_ptr<TenantFile>> TenantFile::Open(const std::string& path,
                                                             absl::Duration period) {
  std::unique_ptr<TenantFile> file(new TenantFile(path, period));
  LOCKSTEP_RETURN_IF_ERROR(file->Reload());
  file->thread_ = NamedThread("tenant-file", [file = file.get()] { file->ReloadPeriodically(); });
  return file;
}

TenantFile::~TenantFile() {
  MutexLock lock(mutex_);
  stopping_ = true;
  stops_.NotifyAll();
}

std::shared_ptr<const TenantTable> TenantFile::current() const {
  MutexLock lock(mutex_);
  return table_;
}

absl::Status TenantFile::Reload() {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path_, kMaxBytes));
  {
    MutexLock lock(mutex_);
    if (table_ != nullptr && text == text_) return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(TenantTable table, TenantTable::Parse(text, path_));
  MutexLock lock(mutex_);
  text_ = std::move(text);
  table_ = std::make_shared<const TenantTable>(std::move(table));
  return absl::OkStatus();
}

void TenantFile::ReloadPeriodically() {
  std::string last_error;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!stopping_) stops_.WaitFor(mutex_, period_);
      if (stopping_) return;
    }
    const std::string error = Message(Reload());
    if (error != last_error && !error.empty()) {
      spdlog::error("the tenants stay as they were: {}", error);
    }
    last_error = error;
  }
}

}  // namespace lockstep::router
