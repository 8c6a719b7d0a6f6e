"""What is added to a collection that is complete is made as its records were: what it says of that holds on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.migration.inputs.adapting import Naming
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.model.declaration import Declaration

__all__ = ["changed_options", "check_rules_added", "continued"]


def continued(asked: Settings, before: Settings, declaration: Declaration, target: str) -> Settings:
    """Return the settings for inputs that are added to a collection made with `before`, of `declaration`.

    What is not asked for now is as it was. Fills, names and options of formats may be added to where that changes
    nothing about the records there are. Raises `UsageError` for what would.
    """
    for flag, mine, theirs in (
        ("--split", asked.split, before.split),
        ("--from", asked.format, before.format),
        ("--group-by", asked.group_by, before.group_by),
        ("--index", " ".join(sorted(asked.index)), " ".join(sorted(before.index))),
        ("--only", " ".join(sorted(asked.only)), " ".join(sorted(before.only))),
        ("--elements", _words(asked, "elements"), _words(before, "elements")),
        ("--guess-elements", _words(asked, "guess_elements"), _words(before, "guess_elements")),
    ):
        if mine and mine != theirs:
            raise _refused(flag, mine, theirs, target)
    for flag, added in (
        ("--rename", {*asked.rename} - {*before.rename}),
        ("--drop", {*asked.drop} - {*before.drop}),
    ):
        for name in sorted(name for name in added if Naming({}, (name,), {}).left_out(declaration)):
            raise UsageError(f"{flag} {name}: the records of {target} have that, {_else(f'leave off {flag} {name}')}")
    return dataclasses.replace(
        asked,
        split=before.split,
        format=before.format,
        group_by=before.group_by,
        index=before.index,
        fill=_joined("--fill", asked.fill, before.fill, target),
        rename=_joined("--rename", asked.rename, before.rename, target),
        drop=(*before.drop, *(name for name in asked.drop if name not in before.drop)),
        dedupe=asked.dedupe or before.dedupe,
        options=_joined("the option", asked.options, before.options, target),
        only=before.only,
        trim=before.trim or asked.trim,
        rules=asked.rules or before.rules,
    )


def check_rules_added(asked: Settings, before: Settings, paths: Iterable[str], target: str) -> None:
    """Raise `UsageError` where other rules than before hold for an input that is in the collection already."""
    if not asked.rules or asked.rules == before.rules:
        return
    now, then = RuleBook(Settings(rules=asked.rules)), RuleBook(Settings(rules=before.rules))
    for path in paths:
        mine, theirs = now.matching(path), then.matching(path)
        if [asked.rules[number] for number in mine] != [before.rules[number] for number in theirs]:
            raise UsageError(
                f"--rules: other rules than {target} was made with hold for {path}, whose records are there: "
                f"leave those as they were, or start over with --overwrite"
            )


def changed_options(asked: Settings, before: Settings, units: Mapping[str, str]) -> list[str]:
    """Return the options that ask for something else than a collection was made with, in `before` and `units`."""
    changed = []
    for flag, mine, theirs in (
        ("--fill", asked.fill, before.fill),
        ("--rename", asked.rename, before.rename),
        ("", asked.options, before.options),
    ):
        names = [name for name, value in mine.items() if name not in theirs or theirs[name] != value]
        changed += [f"{flag} {name}" if flag else f"--{name.replace('_', '-')}" for name in names]
    changed += [f"--drop {name}" for name in asked.drop if name not in before.drop]
    changed += [f"--only {name}" for name in asked.only if name not in before.only]
    if asked.units is not None and dict(asked.units) != dict(units):
        changed.append("--units")
    if asked.dedupe and not before.dedupe:
        changed.append("--dedupe")
    return changed


def _words(settings: Settings, name: str) -> str:
    """Return an option of all inputs as a text, empty where it is not given."""
    value = settings.options.get(name, ())
    return ",".join(value) if isinstance(value, (tuple, list)) else str(value or "")


def _joined(flag: str, asked: Mapping[str, Any], before: Mapping[str, Any], target: str) -> dict[str, Any]:
    for name, value in asked.items():
        if name in before and before[name] != value:
            raise _refused(f"{flag} {name}", value, before[name], target)
    return {**before, **asked}


def _refused(flag: str, mine: Any, theirs: Any, target: str) -> UsageError:
    how = f"with {theirs!r}" if theirs else "without"
    return UsageError(f"{flag}: {target} was made {how}, not with {mine!r}: {_else('leave that off')}")


def _else(first: str) -> str:
    return f"{first}, or start over with --overwrite"
