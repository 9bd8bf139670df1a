"""A template forks workers that work as ones started alone do."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from driver import PYTHON

KERNEL = """import torch
def solve(n):
    x = torch.arange(n, device="cuda")
    return (x * x).sum().item()
"""


class Template:
    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "mkb_worker", "template"]
        self.process = subprocess.Popen(
            [*command, "--control-fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(PYTHON)},
        )
        theirs.close()

    def fork(self, role: str) -> tuple[socket.socket, int, int]:
        """The worker's control socket, its pidfd, and its arena."""
        ours, theirs = socket.socketpair()
        arena, tape = os.memfd_create("arena"), os.memfd_create("tape")
        os.ftruncate(arena, 1 << 30)
        names = ["--control-fd", "--arena-fd", "--tape-fd"]
        request = {"op": "fork", "arguments": [role], "fds": names}
        fds = [theirs.fileno(), arena, tape]
        socket.send_fds(self.socket, [json.dumps(request).encode()], fds)
        theirs.close()
        os.close(tape)
        message, received, _, _ = socket.recv_fds(self.socket, 1 << 16, 4)
        assert json.loads(message)["ok"], message
        return ours, received[0], arena


def ask(control: socket.socket, **request: object) -> dict:
    control.sendall(json.dumps(request).encode() + b"\n")
    with control.makefile("rb") as stream:
        return json.loads(stream.readline())


def test_a_forked_worker_works_and_ends_alone(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL)
    template = Template()
    controls = []
    for n in (10, 20):
        control, pidfd, arena = template.fork("submission")
        assert ask(control, op="import", path=str(kernel))["ok"]
        ask(control, op="place", inputs=[{"t": "int", "v": n}])
        answer = ask(control, op="call")
        assert answer["outputs"] == {"t": "int", "v": sum(i * i for i in range(n))}
        controls.append((control, pidfd))
        os.close(arena)
    control, pidfd = controls[0]
    control.close()
    assert select.select([pidfd], [], [], 10)[0], "the worker outlives its driver's socket"
    # The other one and the template go on.
    control, pidfd = controls[1]
    assert ask(control, op="place", inputs=[{"t": "int", "v": 3}])["ok"]
    third, _, _ = template.fork("replay")
    assert not ask(third, op="nonsense")["ok"]
    # All end with the template.
    template.socket.close()
    assert template.process.wait(20) == 0
    assert select.select([pidfd], [], [], 10)[0], "a worker outlives its template"


def test_a_fork_takes_milliseconds_and_a_wrong_request_is_refused() -> None:
    template = Template()
    template.fork("replay")
    start = time.perf_counter()
    for _ in range(3):
        template.fork("replay")
    assert (time.perf_counter() - start) / 3 < 1.0
    template.socket.sendall(b'{"op": "fork"}')
    assert not json.loads(template.socket.recv(1 << 16))["ok"]
    template.fork("replay")
    template.socket.close()
    assert template.process.wait(20) == 0
