#include "common/model_files/file_kind.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/model_files/gguf.h"
#include "common/runtime/logging.h"
#include "common/status.h"

namespace lockstep {
namespace {

struct Signature {
  std::string_view start;
  std::string_view what;
};

// The first bytes of other file formats.
constexpr Signature kSignatures[] = {
    {kGgufMagic, "is a GGUF file"},
    {"ggml", "is a GGML file, a format that GGUF replaced; convert the model again"},
    {"lmgg", "is a GGML file, a format that GGUF replaced; convert the model again"},
    {"fmgg", "is a GGML file, a format that GGUF replaced; convert the model again"},
    {"tjgg", "is a GGML file, a format that GGUF replaced; convert the model again"},
    {"PK\x03\x04", "is a ZIP archive, as PyTorch saves weights"},
    {"PK\x05\x06", "is an empty ZIP archive"},
    {"\x80\x02", "is a Python pickle, as old versions of PyTorch save weights"},
    {"\x1f\x8b\x08", "is compressed with gzip; unpack it first"},
    {"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it first"},
    {"BZh", "is compressed with bzip2; unpack it first"},
    {"\xfd"
     "7zXZ",
     "is compressed with xz; unpack it first"},
    {"7z\xbc\xaf", "is a 7z archive; unpack it first"},
    {"\x89HDF", "is an HDF5 file, as TensorFlow saves weights"},
    {"%PDF", "is a PDF document"},
    {"\xff\xfe", "is a text in UTF-16, expected UTF-8"},
    {"\xfe\xff", "is a text in UTF-16, expected UTF-8"},
};

constexpr size_t kMaxStartBytes = 512;
constexpr size_t kMaxShownBytes = 60;

bool StartsWithoutCase(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

std::string_view WithoutSpace(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// The value of "size 1234" in a pointer of git-lfs.
std::string_view PointerSize(std::string_view text) {
  const size_t at = text.find("\nsize ");
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + 6);
  return rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
}

// The first line of a text.
std::string_view FirstLine(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of("\r\n\t"), kMaxShownBytes));
}

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; });
}

// Eight bytes of length, then the JSON header.
bool IsSafetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes[8] == '{' &&
         bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

// Servers send such a line instead of a file.
bool IsServersRefusal(std::string_view text) {
  constexpr std::string_view kTexts[] = {"Entry not found", "Invalid username or password",
                                         "Access to model", "Repository not found",
                                         "Not Found",       "Unauthorized",
                                         "Forbidden"};
  return std::ranges::any_of(kTexts,
                             [text](std::string_view start) { return text.starts_with(start); });
}

// The alphabetically first file of a folder with this ending, or "". Gives up on folders with very
// many files, because these are no models.
std::string FirstFile(const std::filesystem::path& folder, std::string_view ending) {
  constexpr size_t kMaxFiles = 10'000;
  std::string first;
  size_t num_files = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (++num_files > kMaxFiles) break;
    const std::string name = it->path().filename().string();
    if (name.ends_with(ending) && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

std::string DescribeFileKind(std::string_view bytes) {
  if (bytes.empty()) return "is empty, so its download or copy did not finish";
  const std::string_view start = bytes.substr(0, kMaxStartBytes);
  for (const Signature& signature : kSignatures) {
    if (start.starts_with(signature.start)) return std::string(signature.what);
  }
  const std::string_view text = WithoutSpace(start);
  if (text.empty()) return "has nothing but white space";
  if (text.starts_with("version https://git-lfs") || text.starts_with("version https://hawser")) {
    const std::string_view size = PointerSize(text);
    return fmt::format(
        "is a git-lfs pointer, not the file{} that it stands for; fetch it with "
        "`git lfs pull`",
        size.empty() ? "" : fmt::format(" of {} bytes", size));
  }
  if (text.starts_with("/annex/objects/") || text.starts_with("../.git/annex/")) {
    return "is a git-annex pointer, not the file that it stands for; fetch it with `git annex get`";
  }
  if (StartsWithoutCase(text, "<!doctype html") || StartsWithoutCase(text, "<html") ||
      StartsWithoutCase(text, "<head")) {
    return "is a web page: a server answered the download with it in place of the file";
  }
  if (StartsWithoutCase(text, "<?xml")) {
    return "is an XML document: a server answered the download with it in place of the file";
  }
  if (IsServersRefusal(text)) {
    return fmt::format("is the answer of a server that refused the download: \"{}\"",
                       EscapeControlCharacters(FirstLine(text)));
  }
  if (start.size() >= 16 && start.find_first_not_of('\0') == std::string_view::npos) {
    return "begins with zeros, so its download or copy did not finish";
  }
  return IsSafetensors(bytes) ? "is a safetensors file" : "";
}

absl::Status RefuseOtherKinds(std::string_view bytes, const std::string& name,
                              std::string_view expected) {
  const std::string kind = DescribeFileKind(bytes);
  if (kind.empty() || kind == fmt::format("is {}", expected)) return absl::OkStatus();
  return InvalidArgument("{}: the file {}; expected {}", name, kind, expected);
}

absl::Status RefuseOtherKinds(std::span<const std::byte> bytes, const std::string& name,
                              std::string_view expected) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(text, name, expected));
  constexpr size_t kMinBytes = 8;
  if (text.size() < kMinBytes || !IsPrintable(text.substr(0, kMaxShownBytes))) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: the file is a text that begins with \"{}\"; expected {}", name,
                         EscapeControlCharacters(FirstLine(text)), expected);
}

std::string DescribeModelPath(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    std::string start(kMaxStartBytes, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    start.resize(static_cast<size_t>(file.gcount()));
    const std::string kind = DescribeFileKind(start);
    return kind.empty() ? "" : fmt::format("; the file {}", kind);
  }
  const std::filesystem::path folder(path);
  if (const std::string gguf = FirstFile(folder, ".gguf"); !gguf.empty()) {
    return fmt::format("; it has {}, so give the path of that file", EscapeControlCharacters(gguf));
  }
  if (std::filesystem::exists(folder / "adapter_config.json", error)) {
    return "; it has an adapter (LoRA), which must be merged into its base model first";
  }
  if (std::filesystem::exists(folder / "params.json", error)) {
    return "; it has a model in its author's own format, which must be converted first";
  }
  return "";
}

absl::StatusOr<nlohmann::json> ParseModelJson(std::string_view text, const std::string& name,
                                              JsonLimits limits) {
  LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(text, name, "JSON"));
  return ParseJson(text, name, limits);
}

}  // namespace lockstep
