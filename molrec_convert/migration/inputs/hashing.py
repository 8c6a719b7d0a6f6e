"""The hash by which an input that was migrated is recognised."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

from molrec_convert.migration.inputs.searching import files_below

__all__ = ["content_digest"]

_DIGEST = 16


def content_digest(path: str, wanted: Callable[[], bool] = lambda: True) -> str:
    """The hash of a file, or of all files of a directory and their names; of less once it is not `wanted`."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    try:
        _feed(digest, path, wanted)
    except IsADirectoryError:
        for whole in files_below(path):
            digest.update(os.path.relpath(whole, path).encode("utf-8", "surrogateescape") + b"\0")
            if os.path.isfile(whole):
                _feed(digest, whole, wanted)
    return digest.hexdigest()


def _feed(digest: Any, path: str, wanted: Callable[[], bool]) -> None:
    # most files are small: a large buffer costs more than they do
    size = 2**16
    with open(path, "rb", buffering=0) as file:
        while (block := file.read(size)) and wanted():
            digest.update(block)
            size = 2**20
