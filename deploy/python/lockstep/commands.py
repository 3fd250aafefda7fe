"""The console commands of the wheel. Each program takes the place of the Python that starts it."""
import os
import signal
import sys

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def become(name, *arguments):
    # Python ignores these two, and a program keeps what is ignored.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(os.path.join(PROGRAMS, name), [name, *arguments, *sys.argv[1:]])


def lockstep():
    # `lockstep serve` hands it to the router.
    os.environ.setdefault("LOCKSTEP_TEMPLATE_PYTHON", sys.executable)
    become("lockstep")


def router():
    # A flag of the user's comes later, so it wins.
    become("lockstep-router", "--template-python=" + sys.executable, "--constraint-python=" + sys.executable)


def worker():
    become("lockstep-worker", "--constraint-python=" + sys.executable)


def generate():
    become("lockstep-generate")
