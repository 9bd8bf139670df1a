"""What attempts find in `/docs`: whole, the same each time, and of nobody's machine."""

from __future__ import annotations

import ast
import getpass
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import PYTHON, ROOT

from mkb_docs import cutedsl, source, symbols, tirx
from mkb_docs.build import DSLS, Documentation

LIMIT = 2_000_000
#: By DSL: the names by which programs reach it.
ROOTS = {"cutedsl": ("cute", "cutlass"), "tirx": ("T", "Tx", "tvm")}


def everything(made: Documentation, dsl: str) -> str:
    return "\n".join(made.dsls[dsl].values())


def api(made: Documentation, dsl: str) -> str:
    return "\n".join(text for path, text in made.dsls[dsl].items() if path.startswith("api/"))


def test_another_process_makes_the_same_bytes(made: Documentation, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-m", "mkb_docs", str(file)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    assert json.loads(file.read_text()) == asdict(made)


def test_nothing_of_this_machine_is_in_the_pages(made: Documentation) -> None:
    pages = [everything(made, dsl) for dsl in made.dsls] + list(made.devices.values())
    text = "\n".join(pages)
    for path in (ROOT, sys.prefix, sys.base_prefix, Path.home(), os.getcwd()):
        if len(str(path)) > 5:  # "/" and "/root" would be found in other words
            assert str(path) not in text
    assert "site-packages" not in text
    assert not re.findall(r"\bat 0x[0-9a-f]+|<[^<>\n]+ object at", text)
    user = getpass.getuser()
    assert user in ("root", "user") or not re.search(rf"\b{re.escape(user)}\b", text)


@pytest.mark.parametrize("dsl", DSLS)
def test_a_dsls_pages_are_small_and_of_text(made: Documentation, dsl: str) -> None:
    pages = made.dsls[dsl]
    size = sum(len(text.encode()) for text in pages.values())
    print(f"{dsl}: {size:,} bytes")
    assert 100_000 < size < LIMIT
    for text in pages.values():
        assert text.endswith("\n") and "\r" not in text and "\t" not in text


@pytest.mark.parametrize("dsl", DSLS)
def test_the_index_names_every_page_and_no_other(made: Documentation, dsl: str) -> None:
    named = re.findall(r"`(\S+\.md)`", made.dsls[dsl]["index.md"])
    assert sorted(named) == sorted({*made.dsls[dsl], "device.md"} - {"index.md"})


def test_every_module_has_a_page(made: Documentation) -> None:
    for module in cutedsl.MODULES:
        assert f"api/{module.name}.md" in made.dsls["cutedsl"]
    for module in ("tvm", "tvm.script.tirx", "tvm.script.tirx.tile", "tvm.tirx.layout"):
        assert f"api/{module}.md" in made.dsls["tirx"]


def headings(text: str) -> set[str]:
    return set(re.findall(r"^##+ (\S+)$", text, re.MULTILINE))


def test_every_name_that_our_modules_list_has_an_entry(made: Documentation) -> None:
    known = headings(api(made, "cutedsl"))
    for module in cutedsl.MODULES:
        loaded = importlib.import_module(module.name)
        names = {f"{module.shown}.{name}" for name in cutedsl.public(loaded, module.passes_on)}
        assert not names - known, module.name
    assert len(known) > 700


def test_every_name_of_the_kernel_language_has_an_entry(made: Documentation) -> None:
    from tvm.script import tirx as language

    text = api(made, "tirx")
    known = headings(text)
    for name in tirx.public(language):
        if name not in tirx.INTERNAL:
            spoken = f"T.{name}" in known or f"`T.{name}`" in text or name in tirx.SCOPES
            in_space = any(entry.startswith(f"T.{name}.") for entry in known)
            assert spoken or in_space, name


def programs(dsl: str) -> Iterator[tuple[str, str]]:
    guide = (ROOT / "docs" / f"{dsl}-guide.md").read_text()
    yield from re.findall(r"```python\n# (\w+\.py)\n(.*?)```", guide, re.DOTALL)
    for path in sorted((ROOT / "problems").glob(f"*/_solutions/*_{dsl}.py")):
        yield path.name, path.read_text()


def used(text: str, roots: tuple[str, ...]) -> set[str]:
    """Names that a program takes from a DSL, as the documentation calls them."""
    found = set()
    tree = ast.parse(text)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in roots:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in roots:
            found.add(".".join([node.id, *parts]))
    return found


@pytest.mark.parametrize("dsl", DSLS)
def test_every_name_that_programs_use_is_found(made: Documentation, dsl: str) -> None:
    text = api(made, dsl)
    known = headings(text)
    whole = {*known, *re.findall(r"`([\w.]+)[`(]", text)}
    modules = {path[4:-3] for path in made.dsls[dsl] if path.startswith("api/")}
    count = 0
    for program, source_text in programs(dsl):
        for name in used(source_text, ROOTS[dsl]):
            # An instance's method or a value's attribute: what it belongs to is what is found.
            parts = name.split(".")
            starts = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
            assert name in whole or starts & (whole - modules) or name in modules, (program, name)
            count += 1
    assert count > 100


@pytest.mark.parametrize("dsl", DSLS)
def test_every_name_in_the_guides_sentences_is_found(made: Documentation, dsl: str) -> None:
    guide = re.sub(r"```.*?```", "", made.dsls[dsl]["guide.md"], flags=re.DOTALL)
    text = "\n".join(text for path, text in made.dsls[dsl].items() if path != "guide.md")
    for code in re.findall(r"`([^`]+)`", guide):
        for name in re.findall(rf"(?<![\w.])(?:{'|'.join(ROOTS[dsl])})(?:\.\w+)+", code):
            assert name in text, name


def test_no_name_of_ours_is_undocumented() -> None:
    for page in cutedsl.pages():
        for symbol in page.symbols:
            assert symbol.documented, symbol.name


def operators(function: object) -> set[str]:
    """The operators of TVM that a function makes, in the virtual GPU's spelling."""
    read = source.of_function(symbols.unwrapped(function))
    assert read is not None
    names = set()
    for node in ast.walk(read[1]):
        if isinstance(node, ast.Constant) and str(node.value).startswith("tirx."):
            names.add(re.sub(r"^tirx\.(cuda|ptx)[._]", "", node.value))
    return names


def functions(path: str, space: object) -> Iterator[tuple[str, object]]:
    call = tirx.operator_of(space)
    if call is not None:
        yield path, call
    for name in tirx.members_of(space):
        item = getattr(space, name)
        if type(item).__name__.endswith("Namespace"):
            yield from functions(f"{path}.{name}", item)
        else:
            yield f"{path}.{name}", item


def test_what_is_said_to_be_modelled_is_what_the_translator_knows() -> None:
    from tvm.script import tirx as language

    rust = "\n".join(p.read_text() for p in (ROOT / "crates/vgpu-tirx/src").rglob("*.rs"))
    known = set(re.findall(r'"(\w+)"', rust))
    checked = 0
    for space in ("cuda", "ptx"):
        for name, function in functions(f"T.{space}", getattr(language, space)):
            made_of = operators(function)
            if made_of:
                assert (tirx.refused(name) is None) == (made_of <= known), (name, made_of)
                checked += 1
    assert checked > 100


def test_the_device_page_has_the_devices_figures(made: Documentation) -> None:
    assert {"b200", "h200"} <= set(made.devices)
    for name, parts in {
        "b200": ("NVIDIA B200", "sm_100a", "| SMs | 148 |", "7.7 TB/s", "(10, 0)"),
        "h200": ("NVIDIA H200", "sm_90a", "| SMs | 132 |", "4.8 TB/s", "(9, 0)"),
    }.items():
        for part in (*parts, "virtual", "Not modelled: tensor cores", "## A launch", "incomplete"):
            assert part in made.devices[name], part
