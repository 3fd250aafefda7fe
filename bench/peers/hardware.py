"""What machine a result comes from."""

import subprocess


def device():
    fields = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0].split(", ")
    return dict(zip(("name", "driver", "memory"), fields))
