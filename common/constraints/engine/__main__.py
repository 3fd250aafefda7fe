"""lockstep-constraint-engine: says which tokens may follow, for requests whose output must fit a constraint.

A router or a worker starts it. It runs in a cage (cage.py), because constraints come from clients. Its standard
input is one end of a socket pair. It answers each frame (frames.py) with one frame, until the other end is closed.
The library is llguidance.
"""
import importlib.machinery
import importlib.util
import os
import sys

import caged_main

STACK_BYTES = 64 << 20  # the library recurses as deep as a grammar does
VERSIONS = "llguidance@1.9."  # other versions may compute other masks


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
    os._exit(caged_main.NO_LIBRARY)


def main():
    arguments = caged_main.arguments_of(sys.argv[1:], num_texts=1)
    if arguments is None:
        print("lockstep-constraint-engine is started by lockstep-router and lockstep-worker", file=sys.stderr)
        return caged_main.MISUSED
    *limits, packages = arguments
    library = load_library(packages)
    import engine
    import frames
    b"\\u0041".decode("unicode-escape")  # loads the codecs that JSON may need
    return caged_main.run(engine.Engine(library), b"constraints", STACK_BYTES, frames.MAX_JOB_BYTES, limits)


# Skips the destructors of everything that constraints left behind.
os._exit(main())
