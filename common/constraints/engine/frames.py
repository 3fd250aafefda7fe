"""Jobs of the constraint engine (common/constraints/engine_frames.h), from the engine's side."""
MAX_JOB_BYTES = 64 << 20


def read_vocabulary(reader):
    """(bytes of each token, ids of the special ones)"""
    special = reader.numbers()
    return [reader.bytes() for _ in range(reader.length())], special
