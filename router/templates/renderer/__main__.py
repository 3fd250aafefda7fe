"""lockstep-template-renderer: renders the chat template of a model for lockstep-router.

The router starts it. It runs in a cage (cage.py), because a template is a program. Its standard input is one
end of a socket pair. It answers each frame (frames.py) with one frame, until the other end is closed.
"""
import os
import sys
import time

import caged_main

STACK_BYTES = 8 << 20
MAX_KEPT_BLOCKS = 1_000_000  # of memory that Python holds, more than after the start


def packages_folder():
    """The likely folder of Jinja; None if only Python itself knows."""
    program = os.readlink(f"/proc/self/fd/{caged_main.PROGRAM_DESCRIPTOR}")
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
        os._exit(caged_main.NO_LIBRARY)
    import html.entities
    import pprint
    import textwrap
    import unicodedata
    # Reads the time zone and the codecs that escapes in templates need.
    time.strftime("%A %Z")
    b"\\u0041\\N{BULLET}".decode("unicode-escape")


def main():
    limits = caged_main.arguments_of(sys.argv[1:])
    if limits is None:
        print("lockstep-template-renderer is started by lockstep-router", file=sys.stderr)
        return caged_main.MISUSED
    import_everything()
    import frames
    import rendering
    return caged_main.run(rendering.Renderer(), b"template-render", STACK_BYTES, frames.MAX_JOB_BYTES, limits,
                          MAX_KEPT_BLOCKS)


# Skips the destructors of everything that a template left behind.
os._exit(main())
