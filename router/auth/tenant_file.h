#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/auth/tenant_table.h"

namespace lockstep::router {

// The tenants of a file that may change while the router runs. Safe to use from any thread.
class TenantFile {
 public:
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  // Reads the file, and again every `period`. Errors as TenantTable::Parse's, or the file's.
  static absl::StatusOr<std::unique_ptr<TenantFile>> Open(const std::string& path,
                                                          absl::Duration period);
  ~TenantFile();

  std::shared_ptr<const TenantTable> current() const;

  // Reads the file now. On an error, which is logged by the periodic reading, what was read before
  // stays in force.
  absl::Status Reload();

 private:
  TenantFile(std::string path, absl::Duration period)
      : path_(std::move(path)), period_(absl::ToChronoNanoseconds(period)) {}
  void ReloadPeriodically();

  const std::string path_;
  const std::chrono::nanoseconds period_;
  mutable Mutex mutex_;
  CondVar stops_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string text_ ABSL_GUARDED_BY(mutex_);  // what `table_` was made of
  std::shared_ptr<const TenantTable> table_ ABSL_GUARDED_BY(mutex_);
  NamedThread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::router
