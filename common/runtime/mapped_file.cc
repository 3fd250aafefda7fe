#include "common/runtime/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep {
namespace {

absl::Status SystemError(int error, std::string_view action, const std::string& path) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (error == ENOENT || error == ENOTDIR) code = absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM) code = absl::StatusCode::kPermissionDenied;
  return MakeError(code, "{}: cannot {}: {}", path, action, std::system_category().message(error));
}

// An open regular file; closes its descriptor.
class RegularFile {
 public:
  static absl::StatusOr<RegularFile> Open(const std::string& path) {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    RegularFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.fd_ < 0) return SystemError(errno, "open", path);
    struct stat info;
    if (fstat(file.fd_, &info) != 0) return SystemError(errno, "read its size", path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument("{}: not a regular file", path);
    file.size_bytes_ = static_cast<size_t>(info.st_size);
    return file;
  }

  RegularFile(RegularFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_bytes_(other.size_bytes_) {}
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  explicit RegularFile(int fd) : fd_(fd) {}

  int fd_;
  size_t size_bytes_ = 0;
};

void Unmap(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const int result = munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  LOCKSTEP_CHECK(result == 0, "munmap of {} bytes failed with errno {}", bytes.size(), errno);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.size_bytes() == 0) return MappedFile(path, {});
  void* address = mmap(nullptr, file.size_bytes(), PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED) return SystemError(errno, "map", path);
  return MappedFile(path, {static_cast<const std::byte*>(address), file.size_bytes()});
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap(bytes_);
    path_ = std::move(other.path_);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(bytes_); }

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.size_bytes() > max_bytes) {
    return InvalidArgument("{}: {} bytes, expected at most {}", path, file.size_bytes(), max_bytes);
  }
  std::string text(file.size_bytes(), '\0');
  size_t num_read = 0;
  while (num_read < text.size()) {
    const ssize_t count = read(file.fd(), text.data() + num_read, text.size() - num_read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "read", path);
    if (count == 0) break;  // it shrank meanwhile
    num_read += static_cast<size_t>(count);
  }
  text.resize(num_read);
  return text;
}

}  // namespace lockstep
