"""Writes the documentation: `python -m mkb_docs FILE.json`, or `python -m mkb_docs FOLDER/`.

The file holds all of it for `mkb`; the folder has one folder a DSL, for a person.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Writes what the argument names."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT / "python" / "cute"))
    from .build import documentation

    made = documentation(ROOT)
    target = Path(sys.argv[1])
    if target.suffix == ".json":
        target.write_text(json.dumps(asdict(made), ensure_ascii=False, indent=0))
        return 0
    device = made.devices["b200"]
    for name, pages in made.dsls.items():
        for path, text in {**pages, "device.md": device}.items():
            file = target / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
