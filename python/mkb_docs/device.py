"""The page that says what the device is: a model, its figures, what it refuses, how it is timed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

#: Limits of a launch and of a thread, as the virtual GPU checks them.
LIMITS = (
    ("threads of a CTA", "1,024"),
    ("shared memory of a CTA", "232,448 bytes (227 KB), static and dynamic together"),
    ("local memory of a thread", "512 KB"),
    ("registers of a thread", "255; what does not fit is charged as registers all the same"),
    ("threads of a warp", "32"),
)

NOT_MODELLED = """\
Not modelled: tensor cores (`mma`, `wgmma`, `tcgen05`), TMA and every other bulk copy, clusters of
more than one CTA, tensor memory, barriers of a whole grid, textures. A kernel that reaches one of
them makes the verdict `incomplete`: the report names the operation, nothing is scored, and the
submission does not count. A large matrix product is therefore best left to eager PyTorch, which is
charged with tensor cores where its types have them.

Modelled: loads and stores of up to 16 bytes, asynchronous copies of 4, 8 and 16 bytes (`cp.async`)
with their groups, mbarriers, CTA-wide and named barriers, shuffles, votes, reductions of a warp,
atomics on shared and global memory, fp8, float16, bfloat16 and their conversions, packed float32
pairs, bit operations, integer and float64 arithmetic, `printf`.

Checked, always: every access for bounds and alignment, waiting for what never comes, the number of
steps. A fault is reported with kernel, line, thread and address. New memory holds 0xFF bytes (NaN
as a float); nothing is known of shared memory at the start."""


def page(description: Path, docs: Path) -> str:
    """The page of the device that a file of `devices/` describes."""
    device = tomllib.loads(description.read_text())
    parts = [
        f"# The device: {device['name']}, virtual",
        "No GPU is here. Kernels run with real numerics, each warp of them, on a model of an "
        f"{device['name']} on the processor; times are computed from what was counted. They rank "
        "kernels, and are no measurement of a real device. The same kernel and inputs give the "
        "same time on every machine. torch says `cuda` and means this device: its name, "
        f"capability {tuple(device['capability'])} and sizes are the model's.",
        "## What is modelled, and what is not",
        NOT_MODELLED,
        "## Figures",
        table(figures(device)),
        "Limits:",
        table(LIMITS),
        "# The modelled clock",
        section(docs / "modelled-clock.md", "A launch"),
        section(docs / "modelled-clock.md", "Eager PyTorch"),
        "No estimate has been compared with a real device.",
        "# torch on this device",
        section(docs / "torch.md", "What is different from a real GPU"),
        section(docs / "torch.md", "What is refused, by name"),
    ]
    return "\n\n".join(parts) + "\n"


def figures(device: dict[str, Any]) -> list[tuple[str, str]]:
    """A device description's figures, in words and units."""
    memory, occupancy, rates = device["memory"], device["occupancy"], device["rates"]
    latency, host, eager = device["latency"], device["host"], device["eager"]
    reached = memory["dram_bytes_per_second"] * memory["dram_efficiency"]
    tensor = {name: f"{value / 1e12:,.0f}" for name, value in device["tensor"].items()}
    return [
        ("architecture", f"{device['arch']}"),
        ("SMs", f"{device['sms']}"),
        ("clock", f"{device['clock_hz'] / 1e9:g} GHz"),
        ("device memory", f"{device['memory_bytes'] / 1e9:,.0f} GB"),
        (
            "DRAM bandwidth",
            f"{memory['dram_bytes_per_second'] / 1e12:g} TB/s, of which {reached / 1e12:.3g} are "
            "reached",
        ),
        ("L2", f"{memory['l2_bytes'] / 1e6:,.0f} MB"),
        (
            "L2 bandwidth",
            f"{memory['l2_bytes_per_clock']:g} bytes a clock, and "
            f"{memory['l2_bytes_per_clock_per_sm']:g} for each SM; in sectors of 32 bytes",
        ),
        (
            "shared memory",
            f"{memory['shared_bytes_per_clock_per_sm']:g} bytes a clock on each SM: 32 banks of 4 "
            "bytes",
        ),
        ("atomics on global memory", f"{memory['l2_atomics_per_clock']:g} a clock"),
        ("latency of a load from DRAM", f"{latency['global']:g} clocks"),
        ("latency of a load from shared memory", f"{latency['shared']:g} clocks"),
        ("latency of a barrier", f"{latency['barrier']:g} clocks"),
        ("latency of arithmetic", f"{latency['alu']:g} clocks"),
        ("warps on an SM", f"{occupancy['max_warps_per_sm']}"),
        ("CTAs on an SM", f"{occupancy['max_ctas_per_sm']}"),
        (
            "registers of an SM",
            f"{occupancy['registers_per_sm']:,}, given to a warp in units of "
            f"{occupancy['register_unit']}",
        ),
        (
            "shared memory of an SM",
            f"{occupancy['shared_per_sm']:,} bytes; {occupancy['shared_reserved_per_cta']:,} of "
            "each CTA's are the system's",
        ),
        ("instructions issued on an SM", f"{occupancy['schedulers_per_sm']} warps' a clock"),
        (
            "warp instructions a clock on an SM",
            ", ".join(f"{pipe} {rate:g}" for pipe, rate in rates.items()),
        ),
        (
            "tensor cores, for eager PyTorch's products alone",
            ", ".join(f"{name} {value}" for name, value in tensor.items())
            + f" TFLOPS, of which {eager['matmul_efficiency']:.0%} are reached",
        ),
        ("a launch", f"{host['launch'] * 1e6:g} us"),
        ("waiting for a value of the device", f"{host['synchronize'] * 1e6:g} us"),
        ("bus to the host", f"{memory['host_bytes_per_second'] / 1e9:g} GB/s"),
    ]


def table(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    """Rows of two columns."""
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def section(path: Path, title: str) -> str:
    """A section of a page, with its heading.

    :raises ValueError: if the page has none of that title.
    """
    begun, found = False, []
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            begun = line == f"## {title}"
        if begun:
            found.append(line)
    if not found:
        raise ValueError(f"{path.name} has no section {title!r}")
    return "\n".join(found).strip()
