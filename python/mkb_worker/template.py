"""A warm process that forks workers: Python, torch and the DSL are imported once, not per worker.

`python -m mkb_worker template --control-fd N [--dsl DSL]` answers JSON lines, each with the file
descriptors that it names:

- `{"op": "fork", "arguments": {...}, "fds": [names]}`: forks a worker of those arguments; its
  descriptors come with the message in the order of `fds` (`control`, `arena`, `device`, `tape`,
  `account`, `output`). Answers `{"ok": true, "pid": N}`.
- `{"op": "end", "pid": N}`: ends the worker and all that it started, and answers how it ended:
  `{"ok": true, "code": N}` or `{"ok": true, "signal": N}`.

A worker cannot look into this process (it is not dumpable) and has none of its descriptors. The
workers of one sandboxed template run one after another, with `/tmp` emptied between them.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_FDS = ("control", "arena", "device", "tape", "account", "output")


def preload(dsl: str | None, *, trusted: bool) -> None:
    """Imports what workers need, and starts nothing: no thread, no arena."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    import torch

    from mkb_shim import native

    native.library()  # loads it; `mkb_shim.install` in the worker makes its arena
    from . import reference, replay, submission  # noqa: F401

    if dsl == "tirx" or trusted:
        # TVM asks whether there is a device. torch would count devices, and then refuses to start
        # on them in a fork, though it has not started here.
        asked = torch.cuda.is_available
        torch.cuda.is_available = lambda: False
        try:
            import tvm  # noqa: F401

            import mkb_tirx  # noqa: F401
        finally:
            torch.cuda.is_available = asked
    if dsl == "cutedsl":
        sys.path.insert(0, str(submission.CUTE))
        import cutlass.cute  # noqa: F401
    gc.collect()
    gc.freeze()  # so that a worker's collector does not touch, and copy, what is shared


def serve(control: socket.socket, *, sandboxed: bool) -> None:
    """Answers until the driver closes the socket."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    while True:
        data, fds, _flags, _address = socket.recv_fds(control, 1 << 16, len(_FDS))
        if not data:
            return
        while not data.endswith(b"\n"):
            more = control.recv(1 << 16)
            if not more:
                return
            data += more
        request = json.loads(data)
        if request["op"] == "fork":
            reply = {"ok": True, "pid": _fork(request, fds, control)}
        else:
            reply = {"ok": True, **_end(int(request["pid"]))}
            if sandboxed:
                _clean()
        control.sendall(json.dumps(reply).encode() + b"\n")


def _fork(request: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        control.close()
        named = dict(zip(request["fds"], fds, strict=True))
        output = named.pop("output")
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        from .__main__ import make_handlers
        from .__main__ import serve as serve_worker

        given = {f"{name}_fd": named.get(name) for name in _FDS if name != "output"}
        arguments = argparse.Namespace(**given, **request["arguments"])
        worker = socket.socket(fileno=arguments.control_fd)
        serve_worker(worker, make_handlers(arguments))
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)


def _end(pid: int) -> dict[str, int]:
    # One that has ended by itself keeps its status until it is waited for.
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0:
        os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status)}


def _clean() -> None:
    """Ends what the worker left running and removes what it left in `/tmp`.

    Where something cannot be removed, this process ends too: the next worker gets a fresh one.
    """
    # Outside a sandbox this would be every process of the user's.
    if not Path("/proc/1/cmdline").read_bytes().startswith(b"mkb-init\0"):
        sys.exit("a template told that it is sandboxed is not")
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    for entry in [*Path("/tmp").iterdir(), *Path("/dev/shm").iterdir()]:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if any(Path("/tmp").iterdir()) or any(Path("/dev/shm").iterdir()):
        sys.exit("a worker left files that cannot be removed")
