"""The 15 common corruptions in the paper's four groups, and how lists of shift names are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tempora_tta.errors import unknown
from tempora_tta.names import CORRUPTION_GROUPS as GROUPS
from tempora_tta.names import EXTRA_CORRUPTIONS as EXTRA

__all__ = ["CORRUPTIONS", "EXTRA", "GROUPS", "expand", "group_of"]

CORRUPTIONS: tuple[str, ...] = tuple(name for members in GROUPS.values() for name in members)


def group_of(name: str) -> str:
    """The group of a shift's name.

    >>> group_of("fog"), group_of("spatter"), group_of("clean"), group_of("imagenet_r")
    ('weather', 'extra', 'clean', 'natural')
    """
    for group, members in {**GROUPS, "extra": EXTRA, "clean": ("clean",)}.items():
        if name in members:
            return group
    return "natural"


def expand(
    names: str | Iterable[str] | None,
    available: Sequence[str] = CORRUPTIONS,
    default: Sequence[str] | None = None,
) -> list[str]:
    """Resolve shift names, group names, `extra` and `all` to shift names, each once, in the order asked for.

    `available` is what there is to choose from; `default` (else all of it) is what `None` and `all` mean.

    >>> expand("noise, fog")
    ['gaussian_noise', 'shot_noise', 'impulse_noise', 'fog']
    """
    everything = list(available if default is None else default)
    if names is None:
        return everything
    wanted = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    families = {**GROUPS, "extra": EXTRA}
    groups = {
        group: [name for name in members if name in available]
        for group, members in families.items()
        if any(name in available for name in members)
    }
    groups["all"] = everything
    chosen: dict[str, None] = {}
    for name in wanted:
        if name not in groups and name not in available:
            raise unknown("shift", name, [*available, *groups])
        chosen.update(dict.fromkeys(groups.get(name, [name])))
    return list(chosen)
