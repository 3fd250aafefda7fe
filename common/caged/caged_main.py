"""What the programs in a cage have in common: they enter it (cage.py), and then answer jobs until their parent is gone."""
import gc
import os
import signal
import stat
import sys

import cage
import connection

# The exit codes. The parent reads them (CagedExit).
RETIRED, MISUSED, MEMORY, NO_LIBRARY, NO_CAGE = 0, 2, 70, 72, 73

PROGRAM_DESCRIPTOR = 3  # the file of the program, still open from its start
COLLECT_AFTER = 5000  # objects that may be garbage, while the collector sleeps


def arguments_of(words, num_texts=0):
    """(process id of the parent, MiB of memory, processor seconds of a job, texts...); None: not started by a parent."""
    if len(words) != 3 + num_texts or not all(word.isdecimal() for word in words[:3]):
        return None
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return None
    return (*map(int, words[:3]), *words[3:])


def run(worker, name, stack_bytes, max_job_bytes, limits, max_kept_blocks=None):
    """Returns the exit code.

    `worker` has answer(payload), which returns (kind, text). `limits` is the beginning of arguments_of.
    `max_kept_blocks`: the program ends when Python holds so much more memory than after the start, and no job waits.
    """
    parent_id, memory_mib, cpu_seconds = limits
    parent = connection.Connection(0, max_job_bytes)
    os.close(PROGRAM_DESCRIPTOR)
    try:
        cage.enter(parent_id, memory_mib << 20, stack_bytes, name)
    except OSError:
        return NO_CAGE
    try:
        _serve(worker, parent, cpu_seconds, max_kept_blocks)
    except connection.Closed:
        pass
    except OSError:  # the parent is gone
        pass
    except MemoryError:
        return MEMORY
    return RETIRED


def _serve(worker, parent, cpu_seconds, max_kept_blocks):
    gc.collect()
    gc.freeze()
    gc.disable()
    blocks_at_start = sys.getallocatedblocks()
    while True:
        payload = parent.read()
        # The parent ends a process that takes too long. This timer is for a parent that is stopped.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        kind, text = worker.answer(payload)
        del payload
        parent.write(kind, text)
        del text
        # No job waits now.
        if gc.get_count()[0] > COLLECT_AFTER:
            gc.collect()
        if max_kept_blocks is not None and sys.getallocatedblocks() - blocks_at_start > max_kept_blocks:
            return
