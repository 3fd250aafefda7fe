#include "cli/serve/model/hub_download.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <filesystem>
#include <optional>

#include "cli/common/environment.h"
#include "cli/serve/processes/child.h"
#include "common/status.h"

namespace lockstep::cli {

std::vector<std::string> DownloadCommand(const std::string& hf, const std::string& name) {
  // Use one pattern: before release 1.0, --include takes many values once; later releases take one
  // value many times. The pattern covers *.json, *.jinja, *.safetensors, *.txt and tokenizer.*.
  return {hf, "download", name, "--include", "*.[jst]*"};
}

std::string PathOfDownload(std::string_view output) {
  std::string last;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(output.data(), output.size()), '\n')) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (!text.empty()) last = std::string(text);
  }
  for (const std::string_view label : {"path=", "path: "}) {
    if (last.starts_with(label)) return last.substr(label.size());
  }
  return last;
}

absl::StatusOr<std::string> DownloadModel(const std::string& name) {
  const std::optional<std::string> hf = FindInPath("hf");
  if (!hf) {
    return FailedPrecondition(
        "{}: no such file or folder. If it is a model of Hugging Face, install the command that "
        "downloads it (pip install huggingface_hub), and try again",
        name);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Captured captured,
                            // It may need the user's token, and the proxy.
                            RunAndCapture(DownloadCommand(*hf, name), {.whole_environment = true}));
  if (captured.wait_status != 0) {
    return Unavailable("{}: `hf download` failed with {}; its message is above", name,
                       DescribeEnd(captured.wait_status));
  }
  const std::string path = PathOfDownload(captured.output);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return Unavailable("{}: `hf download` should end with the model's folder, but printed \"{}\"",
                       name, path);
  }
  return path;
}

}  // namespace lockstep::cli
