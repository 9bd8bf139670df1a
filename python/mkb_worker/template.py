"""Role `template` (trusted): has imported everything, and forks workers in milliseconds.

It runs nobody's code: a worker that it forks does. It has one thread, no arena, no device and no
tape; those belong to the workers. They die with it, and it ends when the driver closes its socket.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

#: A request is one message of at most this many bytes, with at most this many descriptors.
_LONGEST, _MOST_FDS = 1 << 16, 16
_PR_SET_PDEATHSIG = 1


def serve(control: socket.socket, start: Callable[[list[str]], None]) -> None:
    """Answers `{"op": "fork", "arguments": [...], "fds": [...]}` until the driver is gone.

    The message carries file descriptors, which `fds` names in order: `stdout`, `stderr`, or the
    options of the worker that take them (`--arena-fd`). The answer carries a pidfd of the worker.
    """
    # The kernel takes care of workers that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, fds = _receive(control)
        if not message:
            return
        try:
            request = json.loads(message)
            names = request["fds"]
            if request["op"] != "fork" or len(names) != len(fds):
                raise ValueError("a request names an operation or descriptors that are not there")
            pid = os.fork()
            if pid == 0:
                _become(control, request["arguments"], dict(zip(names, fds, strict=True)), start)
            _answer(control, {"ok": True, "pid": pid}, [os.pidfd_open(pid)])
        except (OSError, ValueError, KeyError, TypeError) as error:
            _answer(control, {"ok": False, "error": {"kind": "protocol", "message": str(error)}})
        finally:
            for fd in fds:
                os.close(fd)


def _become(
    control: socket.socket,
    arguments: list[str],
    fds: dict[str, int],
    start: Callable[[list[str]], None],
) -> None:
    """Goes on as a worker, and does not return."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for number, name in ((1, "stdout"), (2, "stderr")):
            if name in fds:
                os.dup2(fds.pop(name), number)
        options = [text for option, fd in fds.items() for text in (option, str(fd))]
        start([*arguments, *options])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    message, fds, _, _ = socket.recv_fds(control, _LONGEST, _MOST_FDS)
    return message, list(fds)


def _answer(control: socket.socket, answer: Json, fds: list[int] | None = None) -> None:
    ancillary = []
    if fds:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    control.sendmsg([json.dumps(answer).encode() + b"\n"], ancillary)
    for fd in fds or ():
        os.close(fd)
