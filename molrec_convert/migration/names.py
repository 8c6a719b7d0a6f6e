"""Names of per-step keys, columns and blocks on their way into a collection: renamed, left out, filled.

"pe" is a per-step key, or a column of any block; "atoms/x" a column of one block; "bonds" a whole block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from molrec_convert.errors import UsageError
from molrec_convert.model.declaration import BlockDeclaration, Declaration

__all__ = ["Naming"]


class Naming:
    """What `--rename`, `--drop` and `--fill` ask for."""

    def __init__(self, rename: Mapping[str, str], drop: tuple[str, ...], fill: Mapping[str, str]) -> None:
        self._rename, self._drop, self._fill = dict(rename), frozenset(drop), dict(fill)
        self._idle = not (self._rename or self._drop)

    def key(self, name: str) -> str | None:
        """The name of a per-step key; None where it is left out."""
        if self._idle:
            return name
        return None if name in self._drop else self._rename.get(name, name)

    def block(self, name: str) -> str | None:
        """The name of a block; None where it is left out."""
        return None if name in self._drop else name

    def column(self, block: str, name: str) -> str | None:
        """The name of a column; None where it is left out."""
        if self._idle:
            return name
        whole = f"{block}/{name}"
        if whole in self._drop or name in self._drop:
            return None
        return self._rename.get(whole, self._rename.get(name, name)).rpartition("/")[2]

    def fill_of(self, block: str | None, name: str) -> str | None:
        """The text a missing column (a per-step key without a block) is filled with; None where none is given."""
        found = self._fill.get(name)
        return found if block is None else self._fill.get(f"{block}/{name}", found)

    def value_of(self, block: str | None, name: str, dtype: str) -> str | None:
        """The text a missing column or key has a value by; None also for NaN of a real number, which is none."""
        text = self.fill_of(block, name)
        is_nan = text is not None and dtype.startswith("f64") and text.strip().lower() == "nan"
        return None if is_nan else text

    def touches(self, declaration: Declaration) -> bool:
        """Whether frames of a declaration are others afterwards, or their system may be."""
        return not self._idle

    def declaration(self, declaration: Declaration) -> Declaration:
        """A declaration under its new names. Raises `UsageError` where two things get one name."""
        if self._idle:
            return declaration
        blocks: dict[str, BlockDeclaration] = {}
        for name, block in declaration.blocks.items():
            if self.block(name) is None:
                continue
            columns = {}
            for key, column in block.columns.items():
                new = self.column(name, key)
                if new in columns:
                    raise UsageError(f"--rename gives two columns of {name} the name {new}")
                if new is not None:
                    columns[new] = column
            targets = {self.column(name, key) or "": target for key, target in block.targets.items()}
            targets = {key: target for key, target in targets.items() if key in columns}
            blocks[name] = dataclasses.replace(block, columns=columns, targets=targets)
        blocks = {
            name: block if block.aligned_with in (None, *blocks) else dataclasses.replace(block, aligned_with=None)
            for name, block in blocks.items()
        }
        meta = {}
        for old, entry in declaration.meta.items():
            new = self.key(old)
            if new in meta:
                raise UsageError(f"--rename gives two per-step keys the name {new}")
            if new is not None:
                meta[new] = entry
        return dataclasses.replace(declaration, blocks=blocks, meta=meta)

    def idle(self, seen: set[str]) -> Iterator[str]:
        """What was asked for and met nothing: names no input has. `seen` are the names of all of them."""
        # what a name becomes may be filled as well
        filled = {name for name in self._fill if name not in self._rename.values()}
        for flag, names in (("--rename", self._rename), ("--drop", self._drop), ("--fill", filled)):
            yield from (f"{flag} {name}" for name in sorted(names) if name not in seen)
