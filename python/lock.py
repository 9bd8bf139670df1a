"""Writes requirements.lock from requirements.in: each package with the hashes of its wheels.

Asks pip's resolver, without downloading the packages, once for each Python that we support. Run it
by hand after a change of requirements.in: `python lock.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
HERE = Path(__file__).parent


def hashes(requirement: str, python: str) -> str:
    """The SHA-256 of the wheel that pip takes for `requirement` on that Python."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--only-binary=:all:", "--target=unused", "--report=-"]
    command += [f"--python-version={python}", "--implementation=cp"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    done = subprocess.run([*command, requirement], check=True, capture_output=True, text=True)
    (package,) = json.loads(done.stdout)["install"]
    return package["download_info"]["archive_info"]["hashes"]["sha256"]


def main() -> None:
    lines = ["# Made by lock.py from requirements.in. Hashes: CPython 3.11 to 3.14 on x86-64."]
    for line in (HERE / "requirements.in").read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if not requirement:
            continue
        found = sorted({hashes(requirement, python) for python in PYTHONS})
        lines.append(" \\\n".join([requirement, *(f"    --hash=sha256:{h}" for h in found)]))
        print(requirement, len(found), flush=True)
    (HERE / "requirements.lock").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
