"""bench/speed_gate with programs that print what the benchmarks print.

    speed_gate_check.py
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

GATE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "speed_gate"

# What each program prints, with the place of a time.
PROGRAMS = {
    "lockstep-attention-cuda-benchmark": '{{"case": "paged_decode:1x512", "unit": "us", "median": {time}, "us_plan": 7.2}}',
    "lockstep-gemm-cuda-benchmark": '{{"shape": "8b.qkv", "rows": 1, "own_us": 1.0, "own_overlapped_us": {time}}}',
    "lockstep-ops-cuda-benchmark": 'op us\n{{"op": "rms_norm", "us": {time}, "gb_per_s": 1.0}}',
    "lockstep-strips-cuda-benchmark": '{{"codec": "q4_k", "shape": "8b.o", "rows": 1, "packed_us": {time}, "bf16_us": 9.0}}',
    "lockstep-engine-benchmark": '{{"model": "m", "numerics_id": "0"}}\n{{"case": "decode:1x512", "unit": "ms", "median": {time}, "values": [1]}}',
}


class Scene:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        self.gpu("NVIDIA H200")
        for program in PROGRAMS:
            self.times(program, 10, 10, 10)

    def program(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def gpu(self, name):
        self.program("nvidia-smi", f"echo '{name}, 580.1'\n")

    def times(self, program, *times):
        """One call after the other takes so long."""
        outputs = "\n".join(f"{i}) cat <<'END'\n{PROGRAMS[program].format(time=time)}\nEND\n;;" for i, time in enumerate(times))
        count = self.folder / f"{program}.count"
        count.unlink(missing_ok=True)
        self.program(program, f'n=$(cat {count} 2>/dev/null || echo 0)\necho $((n + 1)) > {count}\ncase $((n % {len(times)})) in\n{outputs}\nesac\n')

    def gate(self, *arguments):
        return subprocess.run([GATE, *map(str, arguments)], env=self.environment, capture_output=True, text=True, check=False)

    def measure(self, name, *arguments):
        out = self.folder / name
        run = self.gate("measure", "--programs", self.folder, "--out", out, *arguments)
        assert run.returncode == 0, run.stderr
        return out

    def compare(self, kept, new, *arguments):
        run = self.gate("compare", kept, new, *arguments)
        return run.returncode, run.stdout + run.stderr


def check(scene):
    kept = scene.measure("kept.json")
    figures = json.loads(kept.read_text())["figures"]
    assert figures["gemm: 8b.qkv x 1"] == [10, 10, 10], figures
    assert figures["engine-8b: decode:1x512"] == [10, 10, 10], figures
    assert len(figures) == 7, figures
    code, text = scene.compare(kept, kept)
    assert code == 0 and "0 of 7" in text, text

    # Slower by more than the threshold, and by less.
    scene.times("lockstep-gemm-cuda-benchmark", 10.5, 10.5, 10.5)
    scene.times("lockstep-ops-cuda-benchmark", 10.2, 10.2, 10.2)
    code, text = scene.compare(kept, scene.measure("slower.json"))
    assert code == 1 and "FAILED: gemm: 8b.qkv x 1: 10 -> 10.5, +5.0 %" in text and "1 of 7" in text, text
    code, text = scene.compare(kept, scene.folder / "slower.json", "--threshold", 1)
    assert code == 1 and "2 of 7" in text, text
    code, text = scene.compare(kept, scene.folder / "slower.json", "--only", "strips")
    assert code == 0 and "0 of 1 kept" in text, text

    # As slow, but so noisy that it may be chance.
    scene.times("lockstep-gemm-cuda-benchmark", 9.9, 10.5, 11.1)
    code, text = scene.compare(kept, scene.measure("noisy.json"))
    assert code == 0, text

    scene.times("lockstep-gemm-cuda-benchmark", 8, 8, 8)
    code, text = scene.compare(kept, scene.measure("faster.json"))
    assert code == 0 and "faster: gemm: 8b.qkv x 1: -20.0 %" in text, text

    # A figure that is gone, another GPU, and a program that fails.
    code, text = scene.compare(kept, scene.measure("fewer.json", "--only", "gemm"))
    assert code == 1 and "strips: q4_k 8b.o x 1 is gone" in text, text
    scene.gpu("NVIDIA H100")
    code, text = scene.compare(kept, scene.measure("other.json"))
    assert code == 1 and "NVIDIA H200" in text and "NVIDIA H100" in text, text
    scene.program("lockstep-gemm-cuda-benchmark", "echo no device >&2; exit 3\n")
    run = scene.gate("measure", "--programs", scene.folder, "--out", scene.folder / "x.json")
    assert run.returncode == 1 and "ended with 3: no device" in run.stderr, run.stderr
    scene.program("lockstep-gemm-cuda-benchmark", "echo nothing\n")
    run = scene.gate("measure", "--programs", scene.folder, "--out", scene.folder / "x.json", "--only", "gemm")
    assert run.returncode == 1 and "printed no figure" in run.stderr, run.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(Scene(folder))
    print("all right")


if __name__ == "__main__":
    sys.exit(main())
