"""Puts the packages on the path, and starts a virtual GPU for the tests that run kernels."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2]
for folder in (PYTHON, PYTHON / "cute", Path(__file__).resolve().parent):
    sys.path.insert(0, str(folder))

#: Of fcntl.h: the device takes no arena whose size may change.
F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 2, 4
#: The descriptors at which `mkb device-server` expects arena, worker and driver.
DESCRIPTORS = (3, 4, 5)


def binary() -> Path | None:
    """The program: what MKB_PROGRAM names, or the newest build in the workspace."""
    if "MKB_PROGRAM" in os.environ:
        return Path(os.environ["MKB_PROGRAM"])
    built = [PYTHON.parent / "target" / kind / "mkb" for kind in ("release", "debug")]
    present = [path for path in built if path.exists()]
    return max(present, key=lambda path: path.stat().st_mtime, default=None)


@pytest.fixture(scope="session")
def device() -> Iterator[None]:
    """torch on the arena, and a virtual GPU that runs its launches."""
    program = binary()
    if program is None:
        pytest.skip("no mkb program is built: cargo build, or name one in MKB_PROGRAM")
    pytest.importorskip("torch")
    arena = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
    os.ftruncate(arena, 8 << 30)
    fcntl.fcntl(arena, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
    ours, worker = socket.socketpair()
    driver, control = socket.socketpair()
    sources = [os.dup(fd) for fd in (arena, worker.fileno(), control.fileno())]

    def place() -> None:
        # Out of the way first, so that no target is a source still to be copied.
        moved = [os.dup2(fd, 100 + i) for i, fd in enumerate(sources)]
        for fd, target in zip(moved, DESCRIPTORS, strict=True):
            os.dup2(fd, target, inheritable=True)

    process = subprocess.Popen(
        [str(program), "device-server", "1", "0", "20000000000"],
        pass_fds=DESCRIPTORS,
        preexec_fn=place,
        close_fds=True,
    )
    # Ours are closed, so that a server that ends is seen to have ended.
    for fd in sources:
        os.close(fd)
    worker.close()
    control.close()
    import mkb_shim

    mkb_shim.install(device_fd=os.dup(ours.fileno()), arena_fd=arena)
    yield
    driver.close()
    process.kill()
    process.wait()
