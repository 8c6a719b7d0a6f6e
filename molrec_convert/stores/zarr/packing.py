"""The packed form: one zip of a closed record, every file of it a stored entry.

Equal directories give equal zip files: entries are sorted by name and bear one fixed date. Both directions work
beside the target and rename when complete. Source: Zarr V3 binding, "Packed form".
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path

from molrec_convert.errors import ContractError, FormatError, UsageError
from molrec_convert.files.locking import PathLock
from molrec_convert.files.regular_files import open_regular
from molrec_convert.files.staging import check_apart, check_target, replacing
from molrec_convert.stores.zarr.v3.storage import METADATA, DirectoryStorage, read_document
from molrec_convert.stores.zarr.v3.stored_files import lost_files, packed_comment, packed_fault
from molrec_convert.stores.zarr.v3.zip_storage import UNIX, check_claims, check_entries, read_entries, read_entry

__all__ = ["pack", "unpack", "write_zip"]

_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_PIECE = 4 * 2**20


def pack(source: str | os.PathLike[str], target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Pack the record directory `source` into the zip file `target`; the directory stays.

    Raises `UsageError` when `source` is no record directory, a writer has it open, or `target` exists;
    `OSError` when the file cannot be written.
    """
    where, goal = Path(source), Path(target)
    if not where.is_dir():
        raise UsageError(f"{where} is not a record's directory: there is nothing to pack")
    root = read_document(DirectoryStorage(where), "")
    if root is None or root["node_type"] != "group":
        raise UsageError(f"{where} is not a record's directory: it has no zarr.json of a group")
    check_target(goal, overwrite=overwrite)
    check_apart(goal, [where])
    if where.resolve() in goal.resolve().parents:
        raise UsageError(f"{goal} lies inside the record that is to be packed")
    with PathLock(where, reading=True), replacing(goal, overwrite=overwrite) as made:
        write_zip(where, made)


def write_zip(source: Path, path: Path) -> None:
    """Write the files of a record's directory, which nobody alters meanwhile, as the new zip file `path`.

    Raises `ContractError` where one of them is gone.
    """
    storage = DirectoryStorage(source)
    keys = list(storage.keys())
    for key in lost_files(storage):
        raise ContractError(key, "the file is gone, and its values would be zeros: 'mrec validate' tells all that is")
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True) as packed:
        for key in keys:
            _add(packed, source, key)
        packed.comment = packed_comment(keys)


def unpack(source: str | os.PathLike[str], target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Unpack the packed record `source` into the directory `target`.

    All names are checked before a file is made: one that is absolute, leads out of the directory or is no plain
    path, a name that comes twice, a link or a folder entry is a `ContractError`. Raises `FormatError` for what is no
    readable zip, `UsageError` when `target` exists.
    """
    where, goal = Path(source), Path(target)
    if not where.is_file():
        raise UsageError(f"{where} is not a file: there is nothing to unpack")
    check_target(goal, overwrite=overwrite)
    check_apart(goal, [where])
    descriptor = open_regular(where)
    try:
        entries, comment = read_entries(descriptor, where)
        check_entries(entries)
        check_claims(entries, descriptor, whole=True)
        names = [entry.filename for entry in entries]
        if METADATA not in names:
            raise FormatError(where, found="a zip without a zarr.json at its root", expected="a packed record")
        fault = packed_fault(comment, names)
        if fault is not None:
            raise ContractError("", f"{where}: {fault}")
        with replacing(goal, overwrite=overwrite) as made:
            made.mkdir()
            for entry in entries:
                _extract(descriptor, entry, made)
    finally:
        os.close(descriptor)


def _add(packed: zipfile.ZipFile, where: Path, key: str) -> None:
    entry = zipfile.ZipInfo(key, _DATE)
    entry.compress_type = zipfile.ZIP_STORED
    entry.create_system = UNIX
    entry.external_attr = _MODE
    with open(open_regular(where / key), "rb") as file:
        # The size decides whether the entry needs ZIP64 before its first byte is written.
        entry.file_size = os.fstat(file.fileno()).st_size
        with packed.open(entry, "w") as sink:
            shutil.copyfileobj(file, sink, _PIECE)


def _extract(descriptor: int, entry: zipfile.ZipInfo, root: Path) -> None:
    path = root / entry.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as sink:
        for piece in read_entry(descriptor, entry):
            sink.write(piece)
