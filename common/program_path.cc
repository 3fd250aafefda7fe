#include "common/program_path.h"

#include <filesystem>
#include <system_error>

#include "common/status.h"

namespace lockstep {

absl::StatusOr<std::string> PathBesideProgram(std::string_view name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Unavailable("/proc/self/exe: {}", error.message());
  return (self.parent_path() / name).string();
}

}  // namespace lockstep
