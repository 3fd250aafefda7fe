#include "cli/serve/serve.h"

#include <absl/time/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/common/environment.h"
#include "cli/common/errors.h"
#include "cli/common/options.h"
#include "cli/common/private_folder.h"
#include "cli/serve/devices.h"
#include "cli/serve/model/hub_download.h"
#include "cli/serve/model/model_argument.h"
#include "cli/serve/port.h"
#include "cli/serve/processes/child.h"
#include "cli/serve/processes/screen.h"
#include "cli/serve/processes/supervisor.h"
#include "cli/serve/runtime_folder.h"
#include "cli/serve/upgrade/control_socket.h"
#include "common/status.h"
#include "common/version.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Options that every worker takes under the same name, and checks.
constexpr std::array<std::string_view, 4> kWorkerOptions = {"kv-cache-tokens", "kv-dtype",
                                                            "weights", "activations"};

struct ServeOptions {
  std::string model;
  std::optional<uint64_t> port = 8000;
  std::string host = "127.0.0.1";
  std::string device = "auto";
  std::optional<uint64_t> tensor_parallel = 1;
  std::optional<uint64_t> num_workers;  // none: one on the CPU, or one for each GPU
  std::optional<std::string> log_folder;
  std::vector<std::string> worker_flags;
  std::optional<double> restart_wait_seconds = 1;
  std::vector<std::string> router_flags;
};

absl::StatusOr<ServeOptions> ParseServeOptions(const Verb& verb,
                                               std::span<const std::string> words) {
  constexpr std::array<std::string_view, 1> kPositionals = {"MODEL"};
  constexpr std::array<std::string_view, 3> kDevices = {"auto", "cpu", "cuda"};
  constexpr std::array<std::string_view, 3> kSpeculations = {"auto", "ngram", "off"};
  Arguments arguments = Arguments::Parse(verb.options, words);
  ServeOptions options;
  arguments.ExpectPositionals(kPositionals);
  if (!arguments.positionals().empty()) options.model = arguments.positionals()[0];
  arguments.ReadInteger("port", 0, 65535, options.port);
  arguments.Read("host", options.host);
  arguments.ReadChoice("device", kDevices, options.device);
  arguments.ReadInteger("tensor-parallel", 1, 64, options.tensor_parallel);
  arguments.ReadInteger("workers", 1, 64, options.num_workers);
  arguments.Read("log-dir", options.log_folder);
  arguments.ReadAll("worker-flag", options.worker_flags);
  std::string speculation = "auto";
  arguments.ReadChoice("speculation", kSpeculations, speculation);
  if (speculation == "off") options.worker_flags.push_back("--drafter=none");
  if (speculation == "ngram") options.worker_flags.push_back("--drafter=ngram");
  for (const std::string_view name : kWorkerOptions) {
    std::optional<std::string> value;
    arguments.Read(name, value);
    if (value.has_value()) options.worker_flags.push_back(fmt::format("--{}={}", name, *value));
  }
  arguments.ReadSeconds("restart-wait", 0.001, 30, options.restart_wait_seconds);
  options.router_flags = arguments.rest();
  LOCKSTEP_RETURN_IF_ERROR(arguments.Finish());
  return options;
}

// True if one of the router's flags has this name, such as "--tls-cert".
bool HasFlag(const std::vector<std::string>& router_flags, std::string_view name) {
  return std::any_of(router_flags.begin(), router_flags.end(), [name](const std::string& flag) {
    std::string flag_name = flag.substr(0, flag.find('='));
    std::replace(flag_name.begin(), flag_name.end(), '_', '-');
    return flag_name == name;
  });
}

struct FoundModel {
  std::string path;
  std::string id;  // empty: the router takes the name of the file or folder
};

absl::StatusOr<FoundModel> FindModel(const std::string& model) {
  FoundModel found = {.path = model, .id = ""};
  if (!Exists(model) && IsHubName(model)) {
    // The name of the downloaded folder says nothing, so keep the model's name.
    LOCKSTEP_ASSIGN_OR_RETURN(found.path, DownloadModel(model));
    found.id = model;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckModelPath(found.path));
  return found;
}

absl::StatusOr<ReservedPort> ReservePort(const ServeOptions& options) {
  const Address address = {.host = options.host, .port = static_cast<uint16_t>(*options.port)};
  absl::StatusOr<ReservedPort> port = ReservedPort::Reserve(address);
  if (port.status().code() == absl::StatusCode::kAlreadyExists) {
    return absl::AlreadyExistsError(
        PortTakenText(options.model, address.port, NextFreePort(address)));
  }
  if (!port.ok()) {
    return Annotate(port.status(), absl::IsPermissionDenied(port.status()) ? "--port" : "--host");
  }
  return port;
}

// True for logs of programs that serve starts. The user may keep other logs in the same folder.
bool IsOwnLog(const std::string& name) {
  return name == "router.log" || (name.starts_with("worker-") && name.ends_with(".log"));
}

// Renames the logs of the previous run to *.old, so that each program begins an empty log. Returns
// the folder of the logs.
absl::StatusOr<std::string> PrepareLogs(const ServeOptions& options, uint16_t port) {
  const fs::path folder = LogFolder(options.host, port, options.log_folder);
  LOCKSTEP_RETURN_IF_ERROR(MakePrivateFolders(folder));
  std::error_code error;
  // Earlier versions left the folder's mode to the umask.
  if (!options.log_folder) fs::permissions(folder, fs::perms::owner_all, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!IsOwnLog(entry.path().filename())) continue;
    fs::rename(entry.path(), entry.path().string() + ".old", error);
  }
  if (error) return Unavailable("{}: {}", folder.string(), error.message());
  return fs::absolute(folder).string();
}

std::vector<std::string> Joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

struct Places {
  FoundModel model;
  std::string worker_program;
  std::string router_program;
  std::string socket_folder;
  std::string log_folder;
  Address address;
  uint16_t admin_port = 0;  // of the router. It stays the same when the router starts again
};

Supervisor::Fleet MakeFleet(const ServeOptions& options, const DeviceChoice& devices,
                            const Places& places) {
  Supervisor::Fleet fleet;
  fleet.limits.first_wait = absl::Seconds(*options.restart_wait_seconds);
  // Python's wheel says which Python it was installed for.
  const std::optional<std::string> python = EnvironmentValue("LOCKSTEP_TEMPLATE_PYTHON");
  std::string addresses;
  for (uint32_t i = 0; i < devices.num_workers; ++i) {
    const std::string socket = fmt::format("unix:{}/worker-{}.sock", places.socket_folder, i);
    addresses += (i == 0 ? "" : ",") + socket;
    std::vector<std::string> arguments = {places.worker_program, "--model=" + places.model.path,
                                          "--listen=" + socket, "--admin-listen=127.0.0.1:0",
                                          devices.cuda ? "--device=cuda" : "--device=cpu"};
    if (devices.cuda) arguments.push_back("--cuda-device=" + DevicesOfWorker(devices, i));
    // The user's own --threads comes later, and counts.
    if (!devices.cuda && devices.num_workers > 1) {
      const uint32_t share = std::thread::hardware_concurrency() / devices.num_workers;
      arguments.push_back(fmt::format("--threads={}", std::max(share, 1u)));
    }
    if (*options.tensor_parallel > 1) {
      arguments.push_back(fmt::format("--tensor-parallel={}", *options.tensor_parallel));
    }
    if (python.has_value()) {
      arguments.push_back("--constraint-python=" + *python);
    }
    fleet.workers.push_back({.name = fmt::format("worker {}", i),
                             .arguments = Joined(std::move(arguments), options.worker_flags),
                             .log_path = fmt::format("{}/worker-{}.log", places.log_folder, i),
                             .address = socket});
  }
  std::vector<std::string> router_arguments = {
      places.router_program, "--model=" + places.model.path, "--worker=" + addresses,
      "--model-id=" + places.model.id,
      fmt::format("--admin-listen=127.0.0.1:{}", places.admin_port)};
  // While its only worker starts again, new requests wait. The user's own flag comes later.
  if (devices.num_workers == 1) router_arguments.push_back("--no-worker-grace=1m");
  // The user's listeners replace this one. The router would add them.
  if (!HasFlag(options.router_flags, "--listen")) {
    router_arguments.push_back("--listen=" + FormatAddress(places.address));
  }
  if (python.has_value()) {
    router_arguments.push_back("--template-python=" + *python);
    router_arguments.push_back("--constraint-python=" + *python);
  }
  fleet.router = {.name = "router",
                  .arguments = Joined(std::move(router_arguments), options.router_flags),
                  .log_path = places.log_folder + "/router.log"};
  return fleet;
}

// Lets the router check its flags before a model is loaded. The router's message goes to stderr.
absl::Status CheckRouterFlags(const MemberSpec& router) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Captured captured,
      RunAndCapture(Joined(router.arguments, {"--check-config"}), {.timeout = absl::Minutes(1)}));
  if (captured.wait_status == 0) return absl::OkStatus();
  return InvalidArgument(
      "the router refuses to start like this; its message is above. Its own flags go behind --");
}

absl::StatusOr<DeviceChoice> FindDevices(const ServeOptions& options) {
  const std::vector<Gpu> all_gpus = options.device == "cpu" ? std::vector<Gpu>() : FindGpus();
  const std::vector<Gpu> gpus = VisibleGpus(all_gpus, EnvironmentText("CUDA_VISIBLE_DEVICES"));
  LOCKSTEP_ASSIGN_OR_RETURN(DeviceChoice devices,
                            ChooseDevices(options.device, !CudaVersion().empty(), gpus,
                                          static_cast<uint32_t>(*options.tensor_parallel)));
  if (gpus.empty() && !all_gpus.empty()) {
    devices.note = "CUDA_VISIBLE_DEVICES hides the GPUs, so the model runs on the CPU";
  }
  if (!options.num_workers) return devices;
  if (devices.cuda) {
    return InvalidArgument(
        "--workers: is for --device cpu; on GPUs there is a worker for each, or for each "
        "--tensor-parallel of them");
  }
  devices.num_workers = static_cast<uint32_t>(*options.num_workers);
  return devices;
}

absl::Status Serve(const ServeOptions& options) {
  Places places;
  LOCKSTEP_ASSIGN_OR_RETURN(places.worker_program, SiblingProgram("lockstep-worker"));
  LOCKSTEP_ASSIGN_OR_RETURN(places.router_program, SiblingProgram("lockstep-router"));
  LOCKSTEP_ASSIGN_OR_RETURN(const ReservedPort port, ReservePort(options));
  LOCKSTEP_ASSIGN_OR_RETURN(const ReservedPort admin_port,
                            ReservedPort::Reserve({.host = "127.0.0.1", .port = 0}));
  LOCKSTEP_ASSIGN_OR_RETURN(const DeviceChoice devices, FindDevices(options));
  LOCKSTEP_ASSIGN_OR_RETURN(places.model, FindModel(options.model));
  LOCKSTEP_ASSIGN_OR_RETURN(const RuntimeFolder sockets, RuntimeFolder::Make());
  places.socket_folder = sockets.path();
  places.address = {.host = options.host, .port = port.port()};
  places.admin_port = admin_port.port();
  LOCKSTEP_ASSIGN_OR_RETURN(places.log_folder, PrepareLogs(options, port.port()));
  Supervisor::Fleet fleet = MakeFleet(options, devices, places);
  LOCKSTEP_RETURN_IF_ERROR(CheckRouterFlags(fleet.router));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ControlSocket> control,
                            ControlSocket::Listen(sockets.path() + "/control.sock"));
  const absl::Status linked =
      control->Link(places.log_folder + "/" + ControlLinkName(options.host, port.port()));

  Console console;
  if (!linked.ok()) {
    console.Line("`lockstep upgrade` will not find this server: " + Message(linked));
  }
  if (!devices.note.empty()) console.Line(devices.note);
  const uint32_t num_gpus = devices.num_workers * devices.num_ranks;
  const std::string where = !devices.cuda && devices.num_workers > 1
                                ? fmt::format("on the CPU with {} workers", devices.num_workers)
                            : !devices.cuda ? "on the CPU"
                            : num_gpus == 1 ? "on a GPU"
                                            : fmt::format("on {} GPUs", num_gpus);
  console.Line(
      fmt::format("starting {} {}; logs are in {}", options.model, where, places.log_folder));
  Supervisor supervisor(std::move(fleet), std::move(control), &console, [&](const Member& router) {
    console.Line(
        StartScreen({.model = options.model,
                     .where = where,
                     .address = ParseAddress(router.grpc_address()).value_or(places.address),
                     .tls = HasFlag(options.router_flags, "--tls-cert"),
                     .keys = HasFlag(options.router_flags, "--tenants"),
                     .admin_address = router.admin_address(),
                     .log_folder = places.log_folder},
                    console.paint()));
  });
  return supervisor.Run();
}

}  // namespace

int RunServe(const Verb& verb, std::span<const std::string> words) {
  const absl::StatusOr<ServeOptions> options = ParseServeOptions(verb, words);
  if (!options.ok()) return PrintUsageError(verb.name, options.status());
  const absl::Status status = Serve(*options);
  if (status.ok()) return 0;
  if (status.code() == absl::StatusCode::kCancelled) return 130;
  return PrintFailure(verb.name, status);
}

}  // namespace lockstep::cli
