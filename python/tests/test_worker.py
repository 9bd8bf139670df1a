"""The roles together: what a reference gives, a submission's tape gives again, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from driver import PROBLEMS, Failed, Worker, copy_inputs, leaves


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


SUBMISSION = """
import importlib.util
spec = importlib.util.spec_from_file_location("p", {path!r})
p = importlib.util.module_from_spec(spec)
spec.loader.exec_module(p)
for name, value in p.REDUCED.items():
    setattr(p, name, value)
solve = p.reference
"""


@pytest.mark.parametrize("problem", sorted(PROBLEMS.glob("*/[0-9]*.py")), ids=lambda p: p.stem[:2])
def test_a_replay_gives_the_submissions_outputs_bit_for_bit(problem: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(SUBMISSION.format(path=str(problem)))
    with Worker("reference") as reference, Worker("submission") as submission:
        loaded = reference.ask("load", path=str(problem), workload="reduced")
        imported = submission.ask("import", path=str(kernel))
        with Worker("replay", tape=submission.tape) as replay:
            offset, length = imported["tape"]
            assert replay.ask("replay", offset=offset, length=length)["outputs"] is None
            for seed in (1, 2**63 - 1):
                inputs = reference.ask("draw", seed=seed)["inputs"]
                assert len(inputs) == len(loaded["parameters"])
                expected = reference.ask("reference")
                anchor = reference.ask("anchor")["outputs"]
                copy_inputs(inputs, reference, submission)
                called = submission.ask("call")
                copy_inputs(inputs, reference, replay)
                offset, length = called["tape"]
                played = replay.ask("replay", offset=offset, length=length)
                wanted = [reference.tensor(t) for t in leaves(expected["outputs"])]
                got = [submission.tensor(t) for t in leaves(called["outputs"])]
                again = [replay.tensor(t) for t in leaves(played["outputs"])]
                assert len(wanted) == len(got) == len(again) == len(leaves(anchor)) > 0
                for w, g, a in zip(wanted, got, again, strict=True):
                    assert torch.equal(bits(w), bits(g)) and torch.equal(bits(w), bits(a))
                assert played["account"][1] > 0
                for worker in (reference, submission, replay):
                    worker.ask("release")


def test_a_draw_is_a_function_of_its_seed() -> None:
    problem = next(PROBLEMS.glob("*/28_*.py"))
    with Worker("reference") as one, Worker("reference") as two:
        for worker in (one, two):
            worker.ask("load", path=str(problem), workload="reduced")
        two.ask("draw", seed=7)
        a, b = one.ask("draw", seed=5)["inputs"], two.ask("draw", seed=5)["inputs"]
        for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
            assert torch.equal(bits(one.tensor(x)), bits(two.tensor(y)))
        c = one.ask("draw", seed=6)["inputs"]
        assert any(
            not torch.equal(bits(one.tensor(x)), bits(two.tensor(y)))
            for x, y in zip(leaves_of(c), leaves_of(b), strict=True)
        )


def leaves_of(values: list[dict]) -> list[dict]:
    return [leaf for value in values for leaf in leaves(value)]


def test_what_a_submission_computes_outside_the_tape_does_not_reach_the_replay(
    tmp_path: Path,
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import ctypes, torch\n"
        "def solve(x):\n"
        "    y = torch.zeros_like(x)\n"
        "    ctypes.memset(y.data_ptr(), 1, y.nbytes)\n"
        "    return y + 0\n"
    )
    shape = [{"t": "tensor", "dtype": "float32", "shape": [5], "stride": [1]}]
    with Worker("submission") as submission:
        submission.ask("import", path=str(kernel))
        submission.ask("place", inputs=shape)
        called = submission.ask("call")
        with Worker("replay", tape=submission.tape) as replay:
            replay.ask("place", inputs=shape)
            offset, length = called["tape"]
            played = replay.ask("replay", offset=offset, length=length)
            assert (submission.tensor(called["outputs"]) != 0).all()
            assert (replay.tensor(played["outputs"]) == 0).all()


def test_failures_are_told_by_kind(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    with Worker("submission") as worker:
        with pytest.raises(Failed) as failed:
            worker.ask("nonsense")
        assert failed.value.kind == "protocol"
        with pytest.raises(Failed) as failed:
            worker.ask("import", path=str(tmp_path / "missing.py"))
        assert failed.value.kind == "exception"
        kernel.write_text("x = 1\n")
        with pytest.raises(Failed, match="solve"):
            worker.ask("import", path=str(kernel))
        kernel.write_text("import sys\ndef solve():\n    sys.exit(3)\n")
        worker.ask("import", path=str(kernel))
        worker.ask("place", inputs=[])
        with pytest.raises(Failed) as failed:
            worker.ask("call")
        assert failed.value.kind == "exception" and "SystemExit" in failed.value.message
        kernel.write_text(
            "class NotYet(Exception):\n    mkb_incomplete = True\n"
            "def solve():\n    raise NotYet('tensor cores')\n"
        )
        worker.ask("import", path=str(kernel))
        with pytest.raises(Failed) as failed:
            worker.ask("call")
        assert failed.value.kind == "incomplete" and "tensor cores" in failed.value.message


def test_a_traceback_begins_with_the_submission_and_names_no_folder_of_ours(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import torch\n\ndef solve():\n    try:\n        torch.stack([])\n"
        "    except RuntimeError as error:\n        raise ValueError('above') from error\n"
    )
    with Worker("submission") as worker:
        worker.ask("import", path=str(kernel))
        worker.ask("place", inputs=[])
        with pytest.raises(Failed) as failed:
            worker.ask("call")
    first = failed.value.traceback.splitlines()[1]
    assert first == f'  File "{kernel}", line 5, in solve'
    assert "mkb_worker" not in failed.value.traceback
    assert "site-packages" not in failed.value.traceback
    assert failed.value.traceback.count("Traceback (most recent call last)") == 2


def test_outputs_that_are_no_plain_device_tensors_say_so(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import torch\n"
        "class Lazy(torch.Tensor): pass\n"
        "def solve():\n"
        "    x = torch.ones(2, device='cuda')\n"
        "    return {'a': x.cpu(), 'b': x.as_subclass(Lazy), 'c': torch.nn.Parameter(x),\n"
        "            'd': (x, [1, 0.5, None, True, 'text']), 'e': object()}\n"
    )
    with Worker("submission") as worker:
        worker.ask("import", path=str(kernel))
        worker.ask("place", inputs=[])
        items = {key["v"]: value for key, value in worker.ask("call")["outputs"]["items"]}
    assert items["a"]["device"] == "cpu" and "address" not in items["a"]
    assert items["b"]["type"].endswith("Lazy") and "address" not in items["b"]
    assert items["c"]["type"] == "torch.nn.parameter.Parameter"
    tensor, rest = items["d"]["items"]
    assert tensor["shape"] == [2] and tensor["address"] >= 0x2000_0000_0000
    assert [item.get("v") for item in rest["items"]] == [1, (0.5).hex(), None, True, "text"]
    assert items["e"] == {"t": "other", "type": "builtins.object"}
