"""What is done to files to damage them: bytes, lines, words, and what files of a kind consist of.

Every mutation takes the bytes of one file and a source of chance, and returns others. `mutate` chooses those that fit.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import json
import lzma
import random
import re
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Mutant", "mutate", "words_of"]

#: What stands in place of a file of a directory: a folder, a pipe that nobody writes to, a link to itself.
SPECIAL = ("directory", "pipe", "loop")
NUMBERS = (
    "0", "-1", "1", "2", "7", "-0.0", "0.5", "255", "65536", "40000000", "1000000000", "2147483647", "2147483648",
    "-2147483649", "4294967295", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "100000000000000000000", "9" * 400,
    "1." + "3" * 400, "nan", "NaN", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e-400", "1e308", "5e-324", "1e5",
    "1d5", "0x10", "1_000", "+1", ".5", "1.", "1e", "١", "**", "1.5.2", "--1",
)  # fmt: skip
WORDS = (
    "", "*", "'", '"', "\\", "#", "&", "=", ":", "{", "}", "[", "]", "(", ")", "$x", "${x}", "$(1/0)", "%s", "\t",
    "x" * 5000, "T", "F", "none", "NULL", "NaN", "é", "\u2028", "\ufeff", "../x", "/", "\x1b[31m", "atoms",
    "id", "type", "element",
    "x", "xu", "species", "Lattice", "hybrid", "full", "ITEM:", "all", "run", "next", "label", "jump",
)  # fmt: skip
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    65535,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**62,
    2**63 - 1,
    -(2**63),
)
VALUES: tuple[Any, ...] = (
    None, 0, -1, 1, 2, 7, 2**31, 2**53 + 1, 2**63, 2**64, 10**20, int("9" * 400), -(2**63), 1.5, -0.0, 1e308,
    float("nan"), float("inf"), "x", "", "NaN", "0", "é", "\0", "../x", "a/b", "/", "x" * 300, [], {}, True,
    False, [1], [[1.0]],
    {"a": 1}, [0, 0], [-1], [2**40], [2**31, 2**31], [None], ["x"], "float32", "float64", "int64", "string",
    "bool", "json",
    "f64", "u64", "box", "atoms", "group", "array", "gzip", "zstd", "crc32c", "bytes", "sharding_indexed", "default",
)  # fmt: skip
KEYS = (
    "x", "", "..", "a/b", "_validity", "count", "precision", "cell_defined", "nstep", "targets", "shape", "data_type",
    "units", "meta", "atoms", "id", "codecs", "x" * 300, "é", "\0", "__proto__", "box", "vectors",
)  # fmt: skip
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[^\s=,:;\"'\[\]{}()]+")
_COMPRESSED: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (gzip.decompress, lambda data: gzip.compress(data, 1)),
    ".bz2": (bz2.decompress, bz2.compress),
    ".xz": (lzma.decompress, lzma.compress),
}
#: Of a mutated file at most this much is kept.
_MOST = 2**22


@dataclass
class Mutant:
    """Some files, altered: `files` as they are now, what was done to which of them."""

    files: dict[str, bytes | str]
    done: list[str] = field(default_factory=list)
    #: Whether a checksum stands over every byte that was altered.
    covered: bool = True


def words_of(contents: Iterable[bytes]) -> list[bytes]:
    """Return words of some files, each once."""
    found: set[bytes] = set()
    for content in contents:
        if _is_text(content[:4096]):
            found.update(_WORD.findall(content[:3000]))
    return sorted(found)


def mutate(files: Mapping[str, bytes], words: list[bytes], chance: random.Random) -> Mutant:
    """Return the files with one to four mutations; `words` are those of other files."""
    mutant = Mutant(dict(files))
    for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        if len(files) > 1 and chance.random() < 0.06:
            _among_files(mutant, chance)
            continue
        name = _one_of(mutant, chance)
        content = mutant.files.get(name)
        if not isinstance(content, bytes):
            continue
        fresh = not any(done.startswith(f"{name}: ") for done in mutant.done)
        kind, altered, sealed = _alter(name, content, words, chance, fresh=fresh)
        mutant.files[name] = altered[:_MOST]
        mutant.done.append(f"{name}: {kind}")
        mutant.covered &= not sealed and not name.endswith(("zarr.json", ".jsonl", ".json"))
    return mutant


def _one_of(mutant: Mutant, chance: random.Random) -> str:
    """The name of a file, documents as often as all others together."""
    documents = [name for name in mutant.files if name.endswith(".json")]
    others = [name for name in mutant.files if not name.endswith(".json")]
    if documents and others:
        return chance.choice(documents if chance.random() < 0.5 else others)
    return chance.choice(documents or others)


def _among_files(mutant: Mutant, chance: random.Random) -> None:
    """Remove, exchange, double or replace a file of several."""
    name, other = chance.choice(list(mutant.files)), chance.choice(list(mutant.files))
    act = chance.choice(("remove", "exchange", "double", "double", "special"))
    mutant.covered = False
    mutant.done.append(f"{name}: {act} {other if act == 'exchange' else ''}".rstrip())
    if act == "remove":
        del mutant.files[name]
    elif act == "exchange":
        mutant.files[name], mutant.files[other] = mutant.files[other], mutant.files[name]
    elif act == "double":
        folder, _, last = name.rpartition("/")
        free = chance.choice(("copy", last + "~", ".settled", "zarr.json", "0", "99", "x" * 200))
        new = f"{folder}/{free}" if folder else free
        if not any(known == new or known.startswith(f"{new}/") for known in mutant.files):
            mutant.files[new] = mutant.files[name]
    else:
        mutant.files[name] = chance.choice(SPECIAL)


def _alter(
    name: str, content: bytes, words: list[bytes], chance: random.Random, *, fresh: bool = True
) -> tuple[str, bytes, bool]:
    """One mutation that fits the file: what it was, the new content, whether checksums were made to fit.

    Of a file that is damaged already, not `fresh`, no library is asked to take it apart.
    """
    special = _special_of(name, content) if fresh else None
    if special is not None and chance.random() < 0.6:
        try:
            return special(content, words, chance)
        except (ValueError, KeyError, IndexError, OSError, struct.error, sqlite3.Error, zipfile.BadZipFile, EOFError):
            pass  # an earlier mutation left nothing of the kind
        except lzma.LZMAError:
            pass
    textual = b"\0" not in content[:4096] and _is_text(content[:4096])
    kinds = _BYTES + (_TEXT * 2 if textual else _BINARY)
    kind = chance.choice(kinds)
    return kind.__name__.strip("_"), kind(content, words, chance), False


def _is_text(content: bytes) -> bool:
    return sum(byte < 9 or 13 < byte < 32 for byte in content) <= len(content) // 50


def _special_of(name: str, content: bytes) -> Any:
    if name.endswith((".json", ".jsonl")):
        return _document
    if content[:4] == b"PK\3\4":
        return _zip
    if content[:16] == b"SQLite format 3\0":
        return _sqlite
    if content[16:20] == b"\xde\xc0\xef\xbe":
        return _lmdb
    if Path(name).suffix in _COMPRESSED:
        return lambda data, words, chance: _inside(Path(name), data, words, chance)
    return None


def _inside(path: Path, content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    expand, compress = _COMPRESSED[path.suffix]
    kind, altered, _ = _alter(path.stem, expand(content), words, chance)
    return f"inside, {kind}", compress(altered), True


# Bytes of any file.


def _flip(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _byte(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    for _ in range(chance.choice((1, 1, 3))):
        data[chance.randrange(len(data))] = chance.choice(
            b"\0\n\r\t \"'#&*-.0123456789{}[]()=:,;\\/%$\x7f\x80\xc3\xe9\xff"
        )
    return bytes(data)


def _cut(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _delete(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start + chance.choice((1, 1, 2, 4, 16, 200)) :]


def _repeat(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    piece = content[start : start + chance.choice((1, 4, 16, 200))]
    return content[:start] + piece * chance.choice((1, 2, 50)) + content[start:]


def _insert(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    start = chance.choice((0, chance.randrange(len(content) + 1), len(content)))
    piece = chance.choice(
        (b"\0", b"\0" * 100, b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n\n", b" " * 3000, b"\x1a", b"\x0c")
    )
    return content[:start] + piece + content[start:]


def _empty(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    return chance.choice((b"", b"\n", b" ", b"\0" * 512, content * 2))


# Integers in a binary file.


def _integer(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    width = chance.choice((1, 2, 4, 4, 8))
    if len(content) < width:
        return content
    near = len(content) // width if chance.random() < 0.5 else min(len(content), 256) // width
    place = chance.randrange(max(near, 1)) * width
    number = chance.choice(INTEGERS) % 2 ** (8 * width)
    return content[:place] + number.to_bytes(width, chance.choice(("little", "big"))) + content[place + width :]


def _exchange(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    width = chance.choice((4, 16, 100))
    a, b = sorted(chance.randrange(max(len(content) - width, 1)) for _ in range(2))
    b = max(b, a + width)
    return content[:a] + content[b : b + width] + content[a + width : b] + content[a : a + width] + content[b + width :]


# Words, numbers and lines of a text.


def _number(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    return _replaced(content, _NUMBER, chance.choice(NUMBERS).encode(), chance)


def _word(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    return _replaced(content, _WORD, chance.choice(WORDS).encode(), chance)


def _foreign(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    return _replaced(content, _WORD, chance.choice(words) if words else b"x", chance)


def _own(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    own = _WORD.findall(content)
    return _replaced(content, _WORD, chance.choice(own), chance) if own else content


def _replaced(content: bytes, pattern: re.Pattern[bytes], new: bytes, chance: random.Random) -> bytes:
    """The content with what fits the pattern at one place, near a chosen one, replaced."""
    start = (
        chance.randrange(min(len(content), 400) + 1) if chance.random() < 0.4 else chance.randrange(len(content) + 1)
    )
    found = pattern.search(content, start) or pattern.search(content)
    if found is None:
        return content + new
    return content[: found.start()] + new + content[found.end() :]


def _lines(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return b"\n"
    near = min(len(lines), 12) if chance.random() < 0.4 else len(lines)
    a, b = chance.randrange(near), chance.randrange(len(lines))
    act = chance.choice(("delete", "double", "exchange", "move", "blank", "many", "join"))
    if act == "delete":
        del lines[a]
    elif act == "double":
        lines.insert(b, lines[a])
    elif act == "exchange":
        lines[a], lines[b] = lines[b], lines[a]
    elif act == "move":
        lines.insert(b, lines.pop(a))
    elif act == "blank":
        lines[a] = b"\n"
    elif act == "many":
        lines[a:a] = [lines[a]] * 300
    else:
        lines[a] = lines[a].rstrip(b"\r\n") + b" "
    return b"".join(lines)


def _columns(content: bytes, words: list[bytes], chance: random.Random) -> bytes:
    """One word more or less in a line, or in this and all that follow."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    first = chance.randrange(len(lines))
    last = first + 1 if chance.random() < 0.7 else len(lines)
    place, more = chance.randrange(8), chance.random() < 0.5
    for number in range(first, last):
        parts = lines[number].split()
        if more:
            parts.insert(place, chance.choice(NUMBERS).encode())
        elif parts:
            del parts[min(place, len(parts) - 1)]
        lines[number] = b" ".join(parts) + b"\n"
    return b"".join(lines)


_BYTES = (_flip, _byte, _cut, _delete, _repeat, _insert, _empty)
_TEXT = (_number, _number, _number, _word, _foreign, _own, _lines, _lines, _columns)
_BINARY = (_integer, _integer, _integer, _exchange)


# JSON documents.


def _document(content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    text = content.decode()
    lines = text.splitlines() if text.startswith("{") and "}\n{" in text else [text]
    at = chance.randrange(len(lines))
    document = json.loads(lines[at])
    act = chance.random()
    if act < 0.03:
        lines[at] = "[" * 100_000 if act < 0.01 else '{"a":' * 3000 + "1" + "}" * 3000
    elif act < 0.06:
        keys = re.findall(r'"(\w+)":', lines[at]) or ["x"]
        key = chance.choice(keys)
        lines[at] = lines[at].replace(f'"{key}":', f'"{key}": {json.dumps(chance.choice(VALUES))}, "{key}":', 1)
    else:
        _alter_document(document, chance)
        lines[at] = json.dumps(document)
    return "document", "\n".join(lines).encode(), True


def _alter_document(document: Any, chance: random.Random) -> None:
    node, parent, key = document, None, None
    while isinstance(node, (dict, list)) and node:
        parent, key = node, chance.choice(list(node) if isinstance(node, dict) else list(range(len(node))))
        node = node[key]
        if chance.random() < 0.3:
            break
    if parent is None:
        return
    act = chance.random()
    if act < 0.2:
        parent.pop(key)
    elif act < 0.3:
        parent[key] = [copy.deepcopy(node)] * chance.choice((1, 2, 50))
    elif act < 0.35:
        parent[key] = {chance.choice(KEYS): node}
    elif act < 0.45 and isinstance(parent, dict):
        parent[chance.choice(KEYS)] = parent.pop(key) if act < 0.4 else copy.deepcopy(chance.choice(VALUES))
    else:
        parent[key] = copy.deepcopy(chance.choice(VALUES))


# Zip files: entries and their directory.


def _zip(content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    if chance.random() < 0.4:
        return "zip fields", _zip_fields(content, chance), False
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        entries = [(info.filename, packed.read(info)) for info in packed.infolist()]
    at = chance.randrange(len(entries))
    name, value = entries[at]
    how = zipfile.ZIP_STORED
    act = chance.choice(
        ("remove", "rename", "double", "content", "content", "content", "content", "folder", "order", "deflate")
    )
    if act == "remove":
        del entries[at]
    elif act == "rename":
        odd = (
            "../x",
            "/etc/x",
            "a\\b",
            "",
            ".",
            "x" * 300,
            "a//b",
            name.upper(),
            name + "/",
            "é",
            "a\nb",
            entries[0][0],
        )
        entries[at] = (chance.choice(odd), value)
    elif act == "double":
        entries.append((name, value))
    elif act == "content":
        kind, value, _ = _alter(name, value, words, chance)
        entries[at], act = (name, value), f"{name}: {kind}"
    elif act == "folder":
        entries.append((name.rpartition("/")[0] + "/", b""))
    elif act == "order":
        chance.shuffle(entries)
    else:
        how = zipfile.ZIP_DEFLATED
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as packed:
        for entry, data in entries:
            packed.writestr(zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0)), data, compress_type=how)
    return f"zip {act}", out.getvalue(), True


#: Fields of a local header, of an entry of the directory, and of its end: offset and width.
_LOCAL = ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2))
_ENTRY = (
    (4, 2),
    (6, 2),
    (8, 2),
    (10, 2),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 2),
    (30, 2),
    (32, 2),
    (34, 2),
    (38, 4),
    (42, 4),
)
_END = ((4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2))


def _zip_fields(content: bytes, chance: random.Random) -> bytes:
    mark, fields = chance.choice(((b"PK\3\4", _LOCAL), (b"PK\1\2", _ENTRY), (b"PK\1\2", _ENTRY), (b"PK\5\6", _END)))
    start = chance.choice([found.start() for found in re.finditer(re.escape(mark), content)])
    offset, width = chance.choice(fields)
    old = int.from_bytes(content[start + offset : start + offset + width], "little")
    new = chance.choice((*INTEGERS, old + 1, old - 1, old * 2, len(content))) % 2 ** (8 * width)
    return content[: start + offset] + new.to_bytes(width, "little") + content[start + offset + width :]


# LMDB files: pages and values.


def _lmdb(content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    if chance.random() < 0.5:
        return _lmdb_value(content, words, chance)
    page = 4096
    count = len(content) // page
    data = bytearray(content)
    start = chance.choice((0, 1, chance.randrange(count), chance.randrange(count))) * page
    act = chance.choice(("meta", "header", "pointer", "node", "swap", "blank"))
    if act == "meta":
        start = chance.randrange(2) * page
        field_at, width = start + chance.choice(range(16, 136, 2)), chance.choice((2, 4, 8))
    elif act == "header":
        field_at, width = start + chance.choice((0, 8, 10, 12, 14)), chance.choice((2, 4, 8))
    elif act == "pointer":
        field_at, width = start + 16 + 2 * chance.randrange(12), 2
    elif act == "node":
        pointer = 16 + 2 * chance.randrange(8)
        node = int.from_bytes(data[start + pointer : start + pointer + 2], "little") % page
        field_at, width = start + node + chance.choice((0, 2, 4, 6, 8)), 2
    else:
        other = chance.randrange(count) * page
        first, second = data[start : start + page], data[other : other + page]
        data[start : start + page], data[other : other + page] = (
            (bytes(page), second) if act == "blank" else (second, first)
        )
        return f"lmdb {act}", bytes(data), False
    field_at = min(field_at, len(data) - width)
    old = int.from_bytes(data[field_at : field_at + width], "little")
    new = chance.choice((*INTEGERS, old + 1, old - 1, old ^ 1, old * 2, count)) % 2 ** (8 * width)
    data[field_at : field_at + width] = new.to_bytes(width, "little")
    return f"lmdb {act}", bytes(data), False


def _lmdb_value(content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    """A value, or a key, changed through lmdb itself."""
    import lmdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.mdb")
        path.write_bytes(content)
        with (
            lmdb.open(str(path), subdir=False, lock=False, map_size=2**26) as environment,
            environment.begin(write=True) as transaction,
        ):
            items = [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
            key, value = chance.choice(items)
            act = chance.choice(("value", "value", "value", "value", "header", "header", "remove", "rename", "swap"))
            if act == "remove":
                transaction.delete(key)
            elif act == "rename":
                transaction.delete(key)
                transaction.put(chance.choice((key + b"x", key[:-1] or b"x", b"x", b"s" + b"\xff" * 8)), value)
            elif act == "swap":
                transaction.put(key, chance.choice(items)[1])
            elif act == "header" and value[:4] == b"MRF1":
                transaction.put(key, _frame_header(value, chance))
            else:
                name = "value.json" if value[:1] in b"{[" else "value"
                kind, altered, _ = _alter(name, value, words, chance)
                transaction.put(key, altered[:_MOST])
                act = kind
        return f"lmdb {key!r} {act}", path.read_bytes(), True


def _frame_header(value: bytes, chance: random.Random) -> bytes:
    """Frame bytes with an altered header before the same payload."""
    size = int.from_bytes(value[4:8], "little")
    start = 8 + size + -size % 8
    document = json.loads(value[8 : 8 + size])
    _alter_document(document, chance)
    text = json.dumps(document, separators=(",", ":")).encode()
    return b"MRF1" + len(text).to_bytes(4, "little") + text + bytes(-len(text) % 8) + value[start:]


# SQLite files: the header, and cells.


def _sqlite(content: bytes, words: list[bytes], chance: random.Random) -> tuple[str, bytes, bool]:
    if chance.random() < 0.3:
        place = chance.choice(
            (
                chance.randrange(16, 100),
                100 + chance.randrange(12),
                chance.randrange(len(content) // 4096 + 1) * 4096 % len(content),
            )
        )
        data = bytearray(content)
        data[place : place + 4] = (chance.choice(INTEGERS) % 2**32).to_bytes(4, "big")
        return "sqlite header", bytes(data), False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        path.write_bytes(content)
        database = sqlite3.connect(path)
        try:
            act = _sqlite_change(database, words, chance)
            database.commit()
        finally:
            database.close()
        return f"sqlite {act}", path.read_bytes(), True


def _sqlite_change(database: sqlite3.Connection, words: list[bytes], chance: random.Random) -> str:
    tables = [name for (name,) in database.execute("select name from sqlite_master where type='table'")]
    table = "systems" if "systems" in tables and chance.random() < 0.7 else chance.choice(tables)
    columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
    column = chance.choice(columns)
    act = chance.choice(("cell", "cell", "cell", "cell", "cell", "cell", "cell", "drop", "column", "rows", "view"))
    if act == "cell":
        (rows,) = database.execute(f'select count(*) from "{table}"').fetchone()
        picked = database.execute(
            f'select rowid, "{column}" from "{table}" limit 1 offset ?', (chance.randrange(rows or 1),)
        )
        rowid, old = picked.fetchone() or (0, None)
        new = _cell(old, words, chance)
        database.execute(f'update "{table}" set "{column}"=? where rowid=?', (new, rowid))
        return f"{table}.{column}"
    if act == "drop":
        database.execute(f'drop table "{table}"')
    elif act == "column":
        database.execute(f'alter table "{table}" rename column "{column}" to "{chance.choice(("x", "id", "pbc"))}2"')
    elif act == "rows":
        database.execute(f'delete from "{table}"')
    else:
        database.execute(f'alter table "{table}" rename to old')
        database.execute(f'create view "{table}" as select * from old')
    return f"{act} {table}"


def _cell(old: Any, words: list[bytes], chance: random.Random) -> Any:
    if isinstance(old, bytes) and chance.random() < 0.6:
        return chance.choice(_BYTES + _BINARY)(old, words, chance)
    if isinstance(old, str) and chance.random() < 0.6:
        if old[:1] in ("{", "["):
            return _alter("x.json", old.encode(), words, chance)[1].decode(errors="replace")
        return chance.choice(_TEXT)(old.encode(), words, chance).decode(errors="replace")
    return chance.choice(
        (None, 0, -1, 1.5, float("inf"), 2**63 - 1, "x", "", b"", b"\0" * 8, b"\xff" * 24, "{}", "[]", "nan", 10**15)
    )
