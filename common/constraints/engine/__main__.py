"""lockstep-constraint-engine: says which tokens may follow, for requests whose output must fit a constraint.

A router or a worker starts it. It runs in a cage (cage.py), because constraints come from clients. Its standard
input is one end of a socket pair. It answers each frame (frames.py) with one frame, until the other end is closed.
The library is llguidance.
"""
import gc
import importlib.machinery
import importlib.util
import os
import signal
import stat
import sys

# The exit codes. The parent reads them (CagedExit).
RETIRED, MISUSED, MEMORY, NO_LIBRARY, NO_CAGE = 0, 2, 70, 72, 73

STACK_BYTES = 64 << 20  # the library recurses as deep as a grammar does
PROGRAM_DESCRIPTOR = 3  # the file of this program, still open from its start
VERSIONS = "llguidance@1.9."  # other versions may compute other masks
COLLECT_AFTER = 5000  # objects that may be garbage, while the collector sleeps


def load_library(packages):
    """The native module of llguidance. Its package imports much that is not needed here."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(packages, "llguidance", "_lib" + suffix)
        if not os.path.isfile(path):
            continue
        loader = importlib.machinery.ExtensionFileLoader("_lib", path)
        library = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_lib", path, loader=loader))
        loader.exec_module(library)
        if library.get_version().startswith(VERSIONS):
            return library
    os._exit(NO_LIBRARY)


def arguments_of(words):
    if len(words) != 4 or not all(word.isdecimal() for word in words[:3]):
        return None
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return None
    return (*map(int, words[:3]), words[3])


def serve(engine, parent, cpu_seconds):
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        payload = parent.read()
        # The parent ends a process that takes too long. This timer is for a parent that is stopped.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        kind, text = engine.answer(payload)
        del payload
        parent.write(kind, text)
        if gc.get_count()[0] > COLLECT_AFTER:
            gc.collect()


def main():
    arguments = arguments_of(sys.argv[1:])
    if arguments is None:
        print("lockstep-constraint-engine is started by lockstep-router and lockstep-worker", file=sys.stderr)
        return MISUSED
    parent_id, memory_mib, cpu_seconds, packages = arguments
    library = load_library(packages)
    import cage
    import connection
    import engine
    import frames
    b"\\u0041".decode("unicode-escape")  # loads the codecs that JSON may need
    parent = connection.Connection(0, frames.MAX_JOB_BYTES)
    os.close(PROGRAM_DESCRIPTOR)
    try:
        cage.enter(parent_id, memory_mib << 20, STACK_BYTES, b"constraints")
    except OSError:
        return NO_CAGE
    try:
        serve(engine.Engine(library), parent, cpu_seconds)
    except connection.Closed:
        pass
    except OSError:  # the parent is gone
        pass
    except MemoryError:
        return MEMORY
    return RETIRED


# Skips the destructors of everything that constraints left behind.
os._exit(main())
