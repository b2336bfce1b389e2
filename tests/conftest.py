"""Eight CPU devices for every test, set before JAX starts; compiled programs are kept between runs of the tests.

JAX's keys contain the program, its options, the devices and the versions of jaxlib and XLA, so a changed program is recompiled.
Programs beyond LIMIT bytes are removed, oldest first.
"""

import contextlib
import os
import signal
from pathlib import Path

import pytest

LIMIT = 1 << 30  # bytes

# A shell without job control starts background processes with SIGINT ignored, which child processes inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
_user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _cache = Path(_user) / "harp_jax" / "tests-xla"
    _cache.mkdir(parents=True, exist_ok=True)
    _kept = 0
    with contextlib.suppress(FileNotFoundError):  # another session does the same
        for _path in sorted(_cache.iterdir(), key=lambda path: -path.stat().st_mtime):
            _kept += _path.stat().st_size
            if _kept > LIMIT:
                _path.unlink()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_cache)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("MPLCONFIGDIR", f"{_user}/matplotlib")  # Matplotlib's font cache is then built only once
os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)  # for child processes


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keeps indexes and converted models of tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("my cache?#%")))  # SQLite's URIs need quoting
        yield
