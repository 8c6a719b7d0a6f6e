"""The order in which `tree` shows nodes. Source: the tree notation, rule 8."""

from __future__ import annotations

from collections.abc import Iterable

from molrec_convert.inspect.tree.nodes import Node

__all__ = ["ordered"]

ROOT = ("meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics")
BLOCKS = ("atoms", "bonds", "angles", "dihedrals", "impropers")
TRAJECTORY = ("meta", "step", "time")
BOX = ("step_index", "vectors", "origin", "boundary")
COLUMNS = ("step_index", "offset")
TABLE_COLUMNS = ("name", "itom", "jtom", "ktom", "ltom", "mtom")
METRICS = ("series", "steps", "wall_time")


def ordered(node: Node, names: Iterable[str]) -> list[str]:
    """The names of a node's children in the order they are shown: some first, the others sorted, some last."""
    first, last = _ends(node)
    rank = {name: position for position, name in enumerate(first)}
    tail = {name: position for position, name in enumerate(last)}

    def key(name: str) -> tuple[int, int, str]:
        if name in tail:
            return 2, tail[name], ""
        return (0, rank[name], "") if name in rank else (1, 0, name)

    return sorted(names, key=key)


def _ends(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = node.key.split("/") if node.key else []
    if not parts:
        return ROOT, ()
    section = parts[0]
    if len(parts) == 1:
        if section in ("frame", "system"):
            return BLOCKS, ("box",)
        if section == "trajectory":
            return (*TRAJECTORY, *_declared(node)), ("box",)
        return {"observables": ("meta",), "metrics": METRICS}.get(section, ()), ()
    if len(parts) == 2 and section in ("frame", "system", "trajectory", "forcefield"):
        if parts[1] == "box":
            return BOX, ()
        return TABLE_COLUMNS if section == "forcefield" else COLUMNS, ("_validity",)
    return (), ()


def _declared(node: Node) -> list[str]:
    schema = node.attributes.get("sequence_schema")
    blocks = schema.get("blocks") if isinstance(schema, dict) else None
    return [name for name in blocks if name not in (*TRAJECTORY, "box")] if isinstance(blocks, dict) else []
