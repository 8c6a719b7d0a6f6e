"""Names of per-step keys, columns and blocks on their way into a collection: renamed, left out, filled.

"pe" is a per-step key, or a column of any block; "atoms/x" a column of one block; "bonds" a whole block.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from molrec_convert.errors import UsageError
from molrec_convert.migration.settings import Settings
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.names import IDENTITY_COLUMNS

#: Columns of the atoms that stay whatever --only says, beside those that say what an atom is.
_POSITIONS = ("x", "y", "z")

__all__ = ["Naming"]


class Naming:
    """What `--rename`, `--drop`, `--exclude`, `--only` and `--fill` ask for.

    Names that are left out, and those that stay, may have `*` and `?` in them. With `trimmed`, a declaration, what
    that does not have is left out, too.
    """

    def __init__(
        self,
        rename: Mapping[str, str],
        drop: tuple[str, ...],
        fill: Mapping[str, str],
        only: tuple[str, ...] = (),
        trimmed: Declaration | None = None,
    ) -> None:
        self._rename, self._fill, self._trimmed = dict(rename), dict(fill), trimmed
        self._drop, self._only = _Names(drop), _Names(only)
        self._asked = drop, only
        self._idle = not (rename or drop or only or trimmed is not None)

    @classmethod
    def of(cls, settings: Settings, trimmed: Declaration | None = None) -> Naming:
        """Return what the settings ask for."""
        return cls(settings.rename, settings.drop, settings.fill, settings.only, trimmed)

    def key(self, name: str) -> str | None:
        """Return the name of a per-step key; None where it is left out."""
        if self._idle:
            return name
        new = self._rename.get(name, name)
        if self._drop.has(name) or not (self._only.has(name, empty=True) or self._only.has(new)):
            return None
        return None if self._trimmed is not None and new not in self._trimmed.meta else new

    def block(self, name: str) -> str | None:
        """Return the name of a block; None where it is left out."""
        if self._trimmed is not None and name not in self._trimmed.blocks:
            return None
        return None if self._drop.has(name) else name

    def column(self, block: str, name: str) -> str | None:
        """Return the name of a column; None where it is left out."""
        if self._idle:
            return name
        whole = f"{block}/{name}"
        new = self._rename.get(whole, self._rename.get(name, name)).rpartition("/")[2]
        if self._drop.has(whole) or self._drop.has(name):
            return None
        stays = block != "atoms" or name in _POSITIONS or name in IDENTITY_COLUMNS or new in _POSITIONS
        if not (stays or self._only.has(name, empty=True) or any(map(self._only.has, (whole, new, f"{block}/{new}")))):
            return None
        return new if self._trimmed is None or self._is_declared(block, new) else None

    def left_out(self, declaration: Declaration) -> list[str]:
        """Return the names of the per-step keys, columns and blocks of a declaration that are left out."""
        if self._idle:
            return []
        keys = [name for name in declaration.meta if self.key(name) is None]
        for name, block in declaration.blocks.items():
            if self.block(name) is None:
                keys.append(name)
            else:
                keys += [f"{name}/{key}" for key in block.columns if self.column(name, key) is None]
        return keys

    def _is_declared(self, block: str, column: str) -> bool:
        assert self._trimmed is not None
        declared = self._trimmed.blocks.get(block)
        return declared is None or column in declared.columns

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
        drop, only = self._asked
        for flag, names in (("--rename", self._rename), ("--drop", drop), ("--only", only), ("--fill", filled)):
            patterns = flag in ("--drop", "--only")
            for name in sorted(names):
                if name not in seen and not (patterns and any(map(_Names((name,)).has, seen))):
                    yield f"{flag} {name}"


class _Names:
    """Some names, of which any may have `*` and `?` in it; a name with these signs is itself, too."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._exact = frozenset(names)
        globs = [re.escape(name).replace(r"\*", ".*").replace(r"\?", ".") for name in names if set(name) & set("*?")]
        self._pattern = re.compile("|".join(globs), re.DOTALL) if globs else None
        self._matches = lru_cache(2**16)(self._fits)

    def has(self, name: str, *, empty: bool = False) -> bool:
        """True if it is one of the names; `empty` where there are none."""
        if not self._exact:
            return empty
        return name in self._exact or (self._pattern is not None and self._matches(name))

    def _fits(self, name: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(name) is not None
