"""Random numbers keyed by names: every draw is a function of (seed, task, record), never of order, time or worker."""

import hashlib

import numpy as np


def _digest(parts: tuple[str | int, ...], size: int) -> bytes:
    # Length prefixes distinguish ("ab", "c") from ("a", "bc"); the type letter distinguishes 1 from "1".
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        state.update(b"%s%d:" % (b"i" if isinstance(part, int) else b"s", len(data)))
        state.update(data)
    return state.digest()


def hash64(*parts: str | int) -> int:
    """Unsigned 64-bit hash (blake2b-8) of strings and integers; the same on every machine and in every process."""
    return int.from_bytes(_digest(parts, 8), "big")


def signed64(*parts: str | int) -> int:
    """`hash64` as a signed integer, the type that SQL engines store."""
    value = hash64(*parts)
    return value - (1 << 64) if value >= 1 << 63 else value


def generator(*parts: str | int) -> np.random.Generator:
    """A Philox generator keyed by the parts: equal parts give equal streams, different parts independent ones."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(parts, 16), "big")))
