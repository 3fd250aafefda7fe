"""Checks of the C++ sources: who may include whom, what is not used, how large things are."""

import collections
import fnmatch
import json
import pathlib
import re

from tree import Finding, cpp_files, numbered_lines, read, without_comments_and_strings

# --- include arrows (docs/architecture.md) ---

# The first matching folder decides; of the project's own folders only these may be included, and the folder
# itself. Rooms stand in the order of docs/architecture.md: a room may include what stands above it there.
# Generated protobuf headers are "lockstep/..." and "opentelemetry/...".
GENERATED = ("lockstep/", "opentelemetry/")
CORE = ("router/core", "common")
TRACING = ("router/tracing",)
WORKERS = (*CORE, "router/strands", "router/workers", "router/limits", "lockstep/worker")
ENGINE = (*WORKERS, *TRACING, "router/mailboxes", "router/fleet", "router/engine")
TRANSPORT = (*ENGINE, "router/front", "router/serving", "router/text", "lockstep")
MODEL = ("worker/model", "worker/comm", "worker/memory", "kernels", "common")
STEPS = (*MODEL, "worker/steps", "lockstep/worker")
ALLOWED_OWN = (
    ("cli/common", ("common",)),
    ("cli/quantize", ("cli/common", "kernels/formats", "common")),
    ("cli", ("cli", "router/client", "common", "lockstep/v1")),
    ("common/grpc", ("common", "lockstep/standard")),
    ("common", ("common",)),
    ("kernels", ("kernels", "common")),
    ("router/core", CORE),
    ("router/text", ("common",)),
    ("router/calls", ("router/text", "common")),
    ("router/templates", ("router/text", "common")),
    ("router/constraints", ("router/text", "common")),
    ("router/strands", ("common",)),
    ("router/limits", ("common",)),
    ("router/auth", ("common",)),
    ("router/tracing", ("common", "opentelemetry")),
    ("router/page", ("common",)),
    ("router/workers", WORKERS),
    ("router/mailboxes", (*WORKERS, *TRACING)),
    ("router/fleet", (*WORKERS, *TRACING, "router/mailboxes")),
    ("router/engine", ENGINE),
    ("router/serving", (*ENGINE, "router/auth", "router/calls", "router/constraints", "router/text", "lockstep")),
    ("router/front", ("router/strands", "router/limits", "common")),
    ("router/grpc", TRANSPORT),
    ("router/http", (*TRANSPORT, "router/page")),
    ("router/client", ("common", "router/text/unicode", "lockstep/v1")),
    ("router", ("router", "common", "lockstep")),
    ("worker/memory", ("common",)),
    ("worker/comm", ("kernels", "common")),
    ("worker/model", MODEL),
    ("worker/steps", STEPS),
    ("worker/drafters", (*STEPS, "worker/drafters")),
    ("worker/cpu", STEPS),
    ("worker/cuda", STEPS),
    ("worker/service", (*STEPS, "lockstep")),
    ("worker", ("worker", "kernels", "common", "lockstep")),
)
OWN_FOLDERS = ("cli", "common", "router", "worker", "kernels", "tests", "bench", "lockstep", "opentelemetry")

CUDA_HEADER = re.compile(r"(cuda|cublas|cutlass|cute/|nccl|nvtx|curand|cub/)")
RPC_HEADER = re.compile(r"(grpc|google/protobuf|google/rpc)")
# Threads, locks, clocks, sockets: nothing of them in the pure scheduler.
IMPURE_HEADER = re.compile(
    r"(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|atomic|chrono|"
    r"ctime|time\.h|sys/.*|netinet/.*|arpa/.*|unistd\.h|pthread\.h|boost/asio.*|"
    r"absl/synchronization/.*|absl/time/clock\.h|spdlog/.*|prometheus/.*|"
    r"common/(runtime|net|grpc)/.*)$")


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def include_violation(path, header):
    """Why file `path` may not include `header`, or None."""
    for folder, allowed in ALLOWED_OWN:
        if is_below(path, folder):
            break
    else:
        return None
    own = next((own for own in OWN_FOLDERS if is_below(header, own)), None)
    if own and not any(is_below(header, prefix) for prefix in (folder, *allowed)):
        return f"{folder}/ must not include {header}"
    if folder in ("common", "kernels", "router/core") and path.split("/")[1] != "grpc" and RPC_HEADER.match(header):
        return f"{folder}/ knows no gRPC and no protobuf, but includes {header}"
    if folder not in ("kernels", "worker/comm", "worker/cuda", "worker") and CUDA_HEADER.match(header):
        return f"only kernels/, worker/comm/ and worker/cuda/ know CUDA, but {folder}/ includes {header}"
    if folder == "router/core" and IMPURE_HEADER.match(header):
        return f"the scheduler is a pure state machine, but includes {header}"
    return None


def check_includes(root):
    for path in cpp_files(root):
        for number, line in numbered_lines(root, path):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            quoted, header = match.group(1) == '"', match.group(2)
            reason = include_violation(path.as_posix(), header)
            if reason:
                yield Finding(path, number, reason)
            elif quoted and not header.startswith(GENERATED) and not (root / header).is_file():
                yield Finding(path, number, f'"{header}" is not a path from the root of the repository')


# --- the table of docs/architecture.md says what ALLOWED_OWN says ---

TABLE_HEAD = "| folder | what is in it | of our own it includes |"
MESSAGES = {"messages": "lockstep", "messages of steps": "lockstep/worker", "messages of OTLP": "opentelemetry",
            "messages of reflection": "lockstep/standard", "messages of `lockstep/v1`": "lockstep/v1"}


def outermost(folders):
    """Without folders that are below others."""
    return {f for f in folders if not any(f != other and is_below(f, other) for other in folders)}


def table_rows(markdown):
    """[(line, folders, what they may include)] of the table, with "the same" and "what `x` includes" filled in."""
    rows, by_folder, above = [], {}, set()
    lines = markdown.splitlines()
    start = lines.index(TABLE_HEAD) if TABLE_HEAD in lines else len(lines)
    for number, line in enumerate(lines[start + 1:], start=start + 2):
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or "`" not in cells[0]:
            continue
        folders, text = [name.rstrip("/") for name in re.findall(r"`([^`]+)`", cells[0])], cells[2]
        allowed = set(above) if text.startswith("the same") else set()
        for other in re.findall(r"what `([^`]+)` includes", text):
            allowed |= by_folder.get(other, set()) | {other}
        text = re.sub(r"what `[^`]+` includes|\bwithout .*", "", text)
        allowed |= {MESSAGES[words] for words in re.findall(r"messages(?: of (?:\w+|`[^`]+`))?", text) if words in MESSAGES}
        text = re.sub(r"messages of `[^`]+`", "", text)
        allowed |= set(re.findall(r"`([^`]+)`", text))
        rows.append((number, folders, allowed))
        by_folder.update((folder, allowed) for folder in folders)
        above = allowed
    return rows


def check_table(root):
    """The table in docs/architecture.md and ALLOWED_OWN are equal, row by row."""
    path = pathlib.Path("docs/architecture.md")
    named = set()
    for number, folders, written in table_rows(read(root, path)):
        for folder in folders:
            named.add(folder)
            rule = next((allowed for prefix, allowed in ALLOWED_OWN if is_below(folder, prefix)), None)
            if rule is None:
                continue  # tests, bench, proto, deploy
            written_here, rule = outermost({*written, folder}), outermost({*rule, folder})
            for other in sorted(written_here - rule):
                yield Finding(path, number, f"says that {folder}/ includes {other}, source_checks.py does not")
            for other in sorted(rule - written_here):
                yield Finding(path, number, f"does not say that {folder}/ includes {other}, source_checks.py does")
    for folder, _ in ALLOWED_OWN:
        if folder not in named:
            yield Finding(path, 0, f"the table lacks {folder}/, which source_checks.py has")


# --- rooms: no circles between folders, and none too full ---

# Tests and benchmarks are no rooms of the house, but nobody finds anything in a full folder there either.
MAX_FOLDER_FILES = 24
HOUSE = ("cli", "common", "kernels", "router", "worker")


def folder_arrows(root):
    """{folder: {folder it includes from: (path, header)}} of the production code."""
    arrows = collections.defaultdict(dict)
    for path in cpp_files(root):
        if path.parts[0] not in HOUSE:
            continue
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(root, path), re.MULTILINE):
            other = pathlib.Path(header).parent
            if other != path.parent and (root / header).is_file():
                arrows[path.parent].setdefault(other, (path, header))
    return arrows


def circle_from(arrows, start):
    """The shortest way from a folder back to itself, as folders, or None."""
    waiting, seen = collections.deque([[start]]), set()
    while waiting:
        way = waiting.popleft()
        for folder in arrows.get(way[-1], ()):
            if folder == start:
                return way + [start]
            if folder not in seen:
                seen.add(folder)
                waiting.append(way + [folder])
    return None


def check_rooms(root):
    arrows = folder_arrows(root)
    reported = set()
    for folder in sorted(arrows):
        circle = circle_from(arrows, folder)
        if circle is None or frozenset(circle) in reported:
            continue
        reported.add(frozenset(circle))
        steps = [f"{path} includes {header}" for path, header in
                 (arrows[a][b] for a, b in zip(circle, circle[1:]))]
        yield Finding(folder, 0, "folders include each other in a circle: " + ", ".join(steps))
    num_files = collections.Counter(path.parent for path in cpp_files(root))
    for folder, count in sorted(num_files.items()):
        if count > MAX_FOLDER_FILES:
            yield Finding(folder, 0, f"{count} source files, more than {MAX_FOLDER_FILES}: which ideas are in it?")


# --- constructs that are not used ---

# (pattern, files that may, what to do instead). Patterns see code without comments and literals.
FORBIDDEN = (
    (r"\b(secure_)?getenv\s*\(", ("cli/common/environment.cc",), "configuration comes from flags, not from the environment"),
    (r"\bstd::(recursive_|timed_|shared_|shared_timed_)?mutex\b|\bstd::condition_variable|"
     r"\bstd::(lock_guard|unique_lock|scoped_lock|shared_lock)\b|"
     r"\babsl::(Mutex|MutexLock|CondVar|Notification|BlockingCounter)\b",
     ("common/runtime/mutex.h",), "use common/runtime/mutex.h"),
    (r"\bstd::this_thread::sleep_|\babsl::SleepFor\b|\b(u|nano)?sleep\s*\(",
     ("router/client/", "*_fixture.cc"),  # a command-line tool and a test's "eventually" may poll
     "wait for an event, with a deadline if need be"),
    (r"\bABSL_FLAG\s*\(", ("tests/rigs/", "bench/"), "a flag of a program is a row of its table (common/flag.h)"),
    (r"\basm\b", ("kernels/core/ptx/",), "inline assembly lives in kernels/core/ptx"),
    (r"\busing\s+namespace\s+std\b", (), "name what is used"),
)
# nvcc compiles these into a trap in kernels, without a warning. (pattern, files whose host code may)
HOST_BITS = re.compile(r"\bstd::(countl_|countr_|popcount|bit_width|bit_floor|bit_ceil|has_single_bit|rotl|rotr)\w*")
HOST_BITS_ALLOWED = ("kernels/norm/row_norm_cuda.h",)
# Only tests that need a GPU or an instruction set may skip: where the machine has none, or has not got the model.
SKIPPING = re.compile(r"\bGTEST_SKIP\b|\bDISABLED_\w")
MAY_SKIP = ("_cuda_test.cc", "cuda_test.h", "quickstart_answer_test.cc", "test_engine.h")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")


def may_use(path, exceptions):
    """Exceptions are paths, folders with a slash at the end, and names, "*" at the start of a pattern."""
    text = path.as_posix()
    return any(text == e or (e.endswith("/") and text.startswith(e)) or fnmatch.fnmatch(path.name, e)
               for e in exceptions)


def device_files(root):
    """CUDA sources and the project's headers that they include."""
    waiting = [path for path in cpp_files(root) if path.suffix in (".cu", ".cuh")]
    found = set(waiting)
    while waiting:
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(root, waiting.pop()), re.MULTILINE):
            path = pathlib.Path(header)
            if path not in found and (root / path).is_file():
                found.add(path)
                waiting.append(path)
    return found


def check_constructs(root):
    on_device = device_files(root)
    for path in cpp_files(root):
        text = read(root, path)
        code = without_comments_and_strings(text).splitlines()
        for number, (line, raw) in enumerate(zip(code, text.splitlines()), start=1):
            for pattern, exceptions, advice in FORBIDDEN:
                match = re.search(pattern, line)
                if match and not may_use(path, exceptions):
                    yield Finding(path, number, f"{match.group().strip()}: {advice}")
            bits = HOST_BITS.search(line)
            if bits and path in on_device and not may_use(path, HOST_BITS_ALLOWED):
                yield Finding(path, number, f"{bits.group()}: in a kernel nvcc makes a trap of it")
            if SKIPPING.search(line) and not path.name.endswith(MAY_SKIP):
                yield Finding(path, number, "a skipped or disabled test; only those that need hardware or llguidance may skip")
            if UNFINISHED.search(raw):
                yield Finding(path, number, "unfinished work belongs into an issue")
        if path.suffix in (".h", ".cuh") and "#pragma once" not in text:
            yield Finding(path, 0, "a header without #pragma once")


# --- sizes ---

# Smells to think about: split where the idea splits.
FILE_LINES, HEADER_LINES = 400, 200
FUNCTION_LINES, PARAMETERS, COLUMNS = 60, 5, 100

# Functions that need more parameters, and why. The list may only shrink: an entry that nothing needs is an error.
# {(path, function): reason}
KEPT_PARAMETERS = {
    ("common/rpc/rpc_session_callbacks.cc", "RpcCallbacks::OnHeader"): "nghttp2 calls it",
    ("common/rpc/rpc_session_callbacks.cc", "RpcCallbacks::OnData"): "nghttp2 calls it",
    ("common/rpc/rpc_session_callbacks.cc", "RpcCallbacks::OnFill"): "nghttp2 calls it",
    ("common/rpc/rpc_tls.cc", "SelectHttp2"): "OpenSSL calls it",
    ("router/front/connection/tls_context.cc", "SelectProtocol"): "OpenSSL calls it",
    ("kernels/attention/decode/attend_item.cuh", "AttendKeys"): "a struct for them would change the device code",
    ("kernels/core/ptx/tensor_copy.cuh", "CopyTensorBox"): "they are the operands of an instruction",
    ("kernels/sampling/noise/philox.h", "PhiloxRound"): "they are the words of the paper's counter and key",
}

NOT_A_FUNCTION = re.compile(r"(namespace|class|struct|union|enum|extern|using|typedef|constexpr|const|static const)\b")

Function = collections.namedtuple("Function", "name line num_lines num_parameters")


def num_parameters(signature):
    """Commas on the outermost level of the first parentheses; template arguments do not count."""
    depth, angle, count, seen = 0, 0, 0, False
    for character in signature[signature.find("("):]:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif character == "<":
            angle += 1
        elif character == ">":
            angle -= 1
        elif character == "," and depth == 1 and angle <= 0:
            count += 1
        if depth >= 1 and not character.isspace() and character != "(":
            seen = True
    return count + 1 if seen else 0


def functions(text):
    """Definitions at column 0, as Google style lays them out: up to a closing brace at column 0."""
    lines = without_comments_and_strings(text).splitlines()
    start = None
    for index, line in enumerate(lines):
        if line.rstrip() == "}" and start is not None:
            signature = " ".join(lines[start:index]).split("{", 1)[0]
            if "(" in signature and not NOT_A_FUNCTION.match(signature) and "INSTANTIATE" not in signature:
                name = signature.split("(", 1)[0].split()[-1] if signature.split("(", 1)[0].split() else "?"
                yield Function(name, start + 1, index - start + 1, num_parameters(signature))
            start = None
        elif line and not line[0].isspace() and line[0] not in "#}":
            if start is None or lines[index - 1].rstrip().endswith((";", "}", "{")) or not lines[index - 1].strip():
                start = index


def size_findings(path, text):
    """(line, what is too large) for one file; the functions with too many parameters are not among them."""
    num_lines = len(text.splitlines())
    wanted = HEADER_LINES if path.suffix in (".h", ".cuh") else FILE_LINES
    if num_lines > wanted:
        yield 0, f"{num_lines} lines, more than {wanted}"
    wide = [number for number, line in enumerate(text.splitlines(), start=1) if len(line) > COLUMNS]
    if wide:
        yield wide[0], f"{len(wide)} lines are longer than {COLUMNS} columns, this is the first"
    for function in functions(text):
        if function.num_lines > FUNCTION_LINES:
            yield function.line, f"{function.name} has {function.num_lines} lines, more than {FUNCTION_LINES}"


def wide_functions(text):
    return [function for function in functions(text)
            if function.num_parameters > PARAMETERS and "TEST" not in function.name]


def check_sizes(root, kept=KEPT_PARAMETERS):
    for path in cpp_files(root):
        text = read(root, path)
        found = list(size_findings(path, text))
        found += [(function.line, f"{function.name} has {function.num_parameters} parameters, more than {PARAMETERS}")
                  for function in wide_functions(text) if (path.as_posix(), function.name) not in kept]
        for line, message in found:
            yield Finding(path, line, message)


def check_kept(root, kept=KEPT_PARAMETERS):
    """Exceptions that nothing needs any more."""
    for path, name in kept:
        text = read(root, path) if (root / path).is_file() else ""
        if name not in (function.name for function in wide_functions(text)):
            yield Finding(pathlib.Path(path), 0, f"{name} has at most {PARAMETERS} parameters: it needs no exception "
                          "in KEPT_PARAMETERS")


# --- every source is built ---

def build_lines(root, path):
    """(folder, line) of what CMake reads in the folder of `path` and in those above it."""
    for folder in path.parents:
        for file in [*(root / folder).glob("CMakeLists.txt"), *(root / folder).glob("*.cmake")]:
            for line in file.read_text().splitlines():
                yield folder, line


def cuda_families(root):
    """The folders of kernels/ whose *_cuda.cc and *_cuda.cu files the build finds by name."""
    lists = root / "kernels/device/CMakeLists.txt"
    text = lists.read_text() if lists.is_file() else ""
    listed = re.search(r"set\(LOCKSTEP_CUDA_FAMILIES ([^)]*)\)", text)
    return {*re.findall(r"kernels/(\w+)/\*_cuda", text), *(listed.group(1).split() if listed else ())}


def check_built(root, compile_commands):
    """Compares the sources with what CMake compiles. What it compiles only under some condition (a CUDA
    toolkit, an optional library) must at least be named by the CMakeLists.txt or a *.cmake file of its folder, or
    by one above that names the folder too; by one that makes a test of a name, without the ending. CUDA sources
    of kernels may also be found by their names."""
    if not compile_commands.is_file():
        yield Finding(compile_commands, 0, "is missing: configure the tree first (deploy/build dev)")
        return
    compiled = set()
    for entry in json.loads(compile_commands.read_text()):
        file = pathlib.Path(entry["file"])
        compiled.add(file.resolve())
        if file.parent.name == "Unity":  # a unit that CMake wrote: it includes the sources
            compiled |= {pathlib.Path(source).resolve() for source in
                         re.findall(r'^#include "(.*)"$', file.read_text(), re.MULTILINE)}
    families = cuda_families(root)
    for path in cpp_files(root):
        if path.suffix not in (".cc", ".cu") or (root / path).resolve() in compiled:
            continue
        if path.parts[0] == "kernels" and path.parts[1] in families and path.stem.endswith("_cuda"):
            continue
        name = re.compile(rf"\b{re.escape(path.stem)}\b")
        if not any(name.search(line) and (folder == path.parent or path.parent.name in line)
                   for folder, line in build_lines(root, path)):
            yield Finding(path, 0, "no CMakeLists.txt builds this file")
