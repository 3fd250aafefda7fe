"""lockstep-template-renderer: renders the chat template of a model for lockstep-router.

The router starts it. It runs in a cage (cage.py), because a template is a program. Its standard input is one
end of a socket pair. It answers each frame (frames.py) with one frame, until the other end is closed.
"""
import gc
import os
import signal
import stat
import sys
import time

# The exit codes. The router reads them (CagedExit).
RETIRED, MISUSED, MEMORY, NO_LIBRARY, NO_CAGE = 0, 2, 70, 72, 73

STACK_BYTES = 8 << 20
PROGRAM_DESCRIPTOR = 3  # the file of this program, still open from its start
COLLECT_AFTER = 5000  # objects that may be garbage, while the collector sleeps
MAX_KEPT_BLOCKS = 1_000_000  # of memory that Python holds, more than after the start


def packages_folder():
    """The likely folder of Jinja; None if only Python itself knows."""
    program = os.readlink(f"/proc/self/fd/{PROGRAM_DESCRIPTOR}")
    package = os.path.dirname(os.path.dirname(program))
    if os.path.isfile(os.path.join(package, "commands.py")):
        return os.path.dirname(package)  # installed as a wheel, beside its dependencies
    if os.path.dirname(sys.executable) == "/usr/bin":
        return "/usr/lib/python3/dist-packages"
    return None


def import_jinja():
    import jinja2.constants
    import jinja2.debug
    import jinja2.ext
    import jinja2.sandbox


def import_everything():
    """Imports Jinja and all that Python and Jinja would import later, because the cage can open no files."""
    folder = packages_folder()
    if folder:
        sys.path.append(folder)
    try:
        try:
            import_jinja()
        except ImportError:
            import site  # finds all packages of this Python, and costs a quarter of the start
            site.main()
            import_jinja()
    except ImportError:
        os._exit(NO_LIBRARY)
    import html.entities
    import pprint
    import textwrap
    import unicodedata
    # Reads the time zone and the codecs that escapes in templates need.
    time.strftime("%A %Z")
    b"\\u0041\\N{BULLET}".decode("unicode-escape")


def arguments_of(words):
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return None
    return tuple(map(int, words))


def serve(renderer, connection, cpu_seconds):
    gc.collect()
    gc.freeze()
    gc.disable()
    blocks_at_start = sys.getallocatedblocks()
    while True:
        payload = connection.read()
        # The router ends a process that takes too long. This timer is for a router that is stopped.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        kind, text = renderer.answer(payload)
        del payload
        connection.write(kind, text)
        del text
        # No job waits now.
        if gc.get_count()[0] > COLLECT_AFTER:
            gc.collect()
        if sys.getallocatedblocks() - blocks_at_start > MAX_KEPT_BLOCKS:
            return


def main():
    arguments = arguments_of(sys.argv[1:])
    if arguments is None:
        print("lockstep-template-renderer is started by lockstep-router", file=sys.stderr)
        return MISUSED
    import_everything()
    import cage
    import connection
    import frames
    import rendering
    parent, memory_mib, cpu_seconds = arguments
    router = connection.Connection(0, frames.MAX_JOB_BYTES)
    renderer = rendering.Renderer()
    os.close(PROGRAM_DESCRIPTOR)
    try:
        cage.enter(parent, memory_mib << 20, STACK_BYTES, b"template-render")
    except OSError:
        return NO_CAGE
    try:
        serve(renderer, router, cpu_seconds)
    except connection.Closed:
        pass
    except OSError:  # the router is gone
        pass
    except MemoryError:
        return MEMORY
    return RETIRED


# Skips the destructors of everything that a template left behind.
os._exit(main())
