"""What an ELF shared library asks of others: needed libraries, undefined symbols, their versions.

Only the parts of the format that the dynamic linker reads are looked at (System V ABI, chapter 5,
and the GNU symbol versioning extension of the Linux Standard Base); 64-bit little-endian files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_SONAME = 1, 5, 6, 14
_DT_HASH, _DT_GNU_HASH = 4, 0x6FFF_FEF5
_DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFF_FFF0, 0x6FFF_FFFE, 0x6FFF_FFFF


class ElfError(ValueError):
    """The file is not a shared library of the expected kind."""


@dataclass(frozen=True)
class Needs:
    """What one library imports."""

    soname: str
    libraries: tuple[str, ...]
    #: Undefined symbols without a version.
    unversioned: frozenset[str]
    #: By library (soname), then by version name: the undefined symbols.
    versioned: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    #: Symbols that the library defines itself.
    defined: frozenset[str] = frozenset()


def read_needs(path: Path) -> Needs:
    """Reads the dynamic section of the shared library at `path`.

    Raises `ElfError` for a file of another kind.
    """
    with path.open("rb") as file:
        return _Reader(file, path).needs()


class _Reader:
    """Seeks in the file, for a library may be half a gigabyte."""

    def __init__(self, file, path: Path) -> None:  # noqa: ANN001 (any binary file)
        self.file, self.path = file, path
        head = self.at(0, 64)
        if head[:4] != b"\x7fELF" or head[4] != 2 or head[5] != 1:
            raise ElfError(f"{path}: not a 64-bit little-endian ELF file")
        table, entry_size, count = (
            struct.unpack_from("<Q", head, 32)[0],
            *struct.unpack_from("<HH", head, 54),
        )
        self.loads: list[tuple[int, int, int]] = []
        self.dynamic: list[tuple[int, int]] = []
        for index in range(count):
            kind, _, offset, address, _, size = struct.unpack_from(
                "<IIQQQQ", self.at(table + index * entry_size, 56)
            )
            if kind == _PT_LOAD:
                self.loads.append((address, offset, size))
            elif kind == _PT_DYNAMIC:
                raw = self.at(offset, size)
                self.dynamic = list(struct.iter_unpack("<QQ", raw[: size // 16 * 16]))
        if not self.dynamic:
            raise ElfError(f"{path}: no dynamic section")

    def at(self, offset: int, size: int) -> bytes:
        self.file.seek(offset)
        data = self.file.read(size)
        if len(data) != size:
            raise ElfError(f"{self.path}: the file ends at {offset + len(data)}")
        return data

    def mapped(self, address: int, size: int) -> bytes:
        for start, offset, length in self.loads:
            if start <= address and address + size <= start + length:
                return self.at(offset + address - start, size)
        raise ElfError(f"{self.path}: address {address:#x} is not in the file")

    def tag(self, wanted: int) -> int | None:
        return next((value for tag, value in self.dynamic if tag == wanted), None)

    def strings(self) -> bytes:
        table, size = self.tag(_DT_STRTAB), self.tag(10)
        if table is None or size is None:
            raise ElfError(f"{self.path}: no string table")
        return self.mapped(table, size)

    def symbol_count(self) -> int:
        table = self.tag(_DT_HASH)
        if table is not None:
            return struct.unpack("<II", self.mapped(table, 8))[1]
        table = self.tag(_DT_GNU_HASH)
        if table is None:
            raise ElfError(f"{self.path}: no symbol hash table")
        n_buckets, first, n_bloom, _ = struct.unpack("<IIII", self.mapped(table, 16))
        buckets = table + 16 + 8 * n_bloom
        highest = max(struct.unpack(f"<{n_buckets}I", self.mapped(buckets, 4 * n_buckets)))
        if highest < first:
            return first
        chain = buckets + 4 * n_buckets
        while not struct.unpack("<I", self.mapped(chain + 4 * (highest - first), 4))[0] & 1:
            highest += 1
        return highest + 1

    def versions(self, text: bytes) -> dict[int, tuple[str, str]]:
        """Version index -> (library, version name)."""
        found: dict[int, tuple[str, str]] = {}
        entry, count = self.tag(_DT_VERNEED), self.tag(_DT_VERNEEDNUM)
        for _ in range(count or 0):
            assert entry is not None
            _, n_aux, library, first, following = struct.unpack("<HHIII", self.mapped(entry, 16))
            aux = entry + first
            for _ in range(n_aux):
                _, _, index, name, step = struct.unpack("<IHHII", self.mapped(aux, 16))
                found[index] = (_text(text, library), _text(text, name))
                aux += step
            entry += following
        return found

    def needs(self) -> Needs:
        text = self.strings()
        soname = self.tag(_DT_SONAME)
        versions = self.versions(text)
        count, symtab, versym = self.symbol_count(), self.tag(_DT_SYMTAB), self.tag(_DT_VERSYM)
        if symtab is None:
            raise ElfError(f"{self.path}: no symbol table")
        symbols = self.mapped(symtab, 24 * count)
        indices = (
            struct.unpack(f"<{count}H", self.mapped(versym, 2 * count)) if versym else [1] * count
        )
        unversioned: set[str] = set()
        defined: set[str] = set()
        versioned: dict[str, dict[str, set[str]]] = {}
        for number, (name, _, _, section, _, _) in enumerate(
            struct.iter_unpack("<IBBHQQ", symbols)
        ):
            symbol = _text(text, name)
            if not symbol:
                continue
            if section != 0:
                defined.add(symbol)
            elif (version := versions.get(indices[number] & 0x7FFF)) is None:
                unversioned.add(symbol)
            else:
                versioned.setdefault(version[0], {}).setdefault(version[1], set()).add(symbol)
        return Needs(
            soname=_text(text, soname) if soname is not None else self.path.name,
            libraries=tuple(_text(text, v) for t, v in self.dynamic if t == _DT_NEEDED),
            unversioned=frozenset(unversioned),
            versioned={
                library: {name: frozenset(s) for name, s in by_version.items()}
                for library, by_version in versioned.items()
            },
            defined=frozenset(defined),
        )


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()
