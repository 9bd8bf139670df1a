"""A virtual GPU for this process alone: for tests, benchmarks and programs without a judge."""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

#: Of fcntl.h: the device takes no arena whose size may change.
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4
#: The descriptors at which `mkb device-server` expects arena, worker and driver.
_DESCRIPTORS = (3, 4, 5)


def program() -> Path | None:
    """The program that has the virtual GPU: what MKB_PROGRAM names, or the newest build here."""
    if "MKB_PROGRAM" in os.environ:
        return Path(os.environ["MKB_PROGRAM"])
    root = Path(__file__).resolve().parents[2]
    built = [root / "target" / kind / "mkb" for kind in ("release", "debug")]
    present = [path for path in built if path.exists()]
    return max(present, key=lambda path: path.stat().st_mtime, default=None)


def start(
    server: Path,
    *,
    threads: int = 1,
    seed: int = 0,
    steps: int = 20_000_000_000,
    arena_bytes: int = 8 << 30,
) -> Callable[[], None]:
    """Puts torch's CUDA side on an arena whose launches `server` runs; gives what ends it.

    `threads` are the host threads of a launch, `steps` its budget of warp instructions. There is
    one device in a process: started once, before anything else installs the shim.
    """
    arena = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
    os.ftruncate(arena, arena_bytes)
    fcntl.fcntl(arena, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
    ours, worker = socket.socketpair()
    driver, control = socket.socketpair()
    sources = [os.dup(fd) for fd in (arena, worker.fileno(), control.fileno())]

    def place() -> None:
        # Out of the way first, so that no target is a source still to be copied.
        moved = [os.dup2(fd, 100 + i) for i, fd in enumerate(sources)]
        for fd, target in zip(moved, _DESCRIPTORS, strict=True):
            os.dup2(fd, target, inheritable=True)

    process = subprocess.Popen(
        [str(server), "device-server", str(threads), str(seed), str(steps)],
        pass_fds=_DESCRIPTORS,
        preexec_fn=place,
        close_fds=True,
    )
    # Ours are closed, so that a server that ends is seen to have ended.
    for fd in sources:
        os.close(fd)
    worker.close()
    control.close()
    from . import install

    install(device_fd=os.dup(ours.fileno()), arena_fd=arena)

    def stop() -> None:
        driver.close()
        process.kill()
        process.wait()

    atexit.register(stop)
    return stop
