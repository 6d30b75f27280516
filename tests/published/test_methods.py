"""Names, families and colours of methods."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from tempora_tta import published
from tempora_tta.errors import TemporaError
from tempora_tta.methods import get, names
from tempora_tta.published import methods
from tempora_tta.report.drawing import DARK_PAPER, contrast, on_dark

# Machado, Oliveira & Fernandes (2009), severity 1: how linear RGB looks to protanopes, deuteranopes and tritanopes.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(vision @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


SURE = [*list(methods.METHODS)[:12], "settle", "pace"]
"""The paper's methods, without the two of its ablation, and Tempora's own: those that most runs show."""
BUNDLED = [*methods.METHODS, *methods.OTHER_COLOURS]


def least_distance(names: Sequence[str], vision: str, paper: str) -> float:
    """CIE76 between the two colours that are most alike; 2.3 is just noticeable."""
    colours = [methods.card_of(name).colour for name in names]
    shown = [on_dark(colour) if paper == "dark" else colour for colour in colours]
    seen = [lab(colour, VISION[vision]) for colour in shown]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))


@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_colours_of_methods_stay_apart(vision: str, paper: str) -> None:
    """All of them for most readers, those of nearly every run for colour-blind readers too. 25 colours cannot be 20
    apart in two dimensions; what is between 10 and 20 is seen, but not at a glance."""
    assert least_distance(BUNDLED, vision, paper) > (20 if vision == "normal" else 10)
    assert least_distance(SURE, vision, paper) > 20


def test_every_bundled_method_has_a_colour_of_the_catalogue() -> None:
    assert {name for name in names() if get(name).__module__.startswith("tempora_tta.")} <= set(BUNDLED)


def test_a_user_s_own_methods_have_colours_that_are_readable_and_seldom_alike() -> None:
    colours = [methods.card_of(f"lab.ideas:Mine{number}").colour for number in range(60)]
    seen = [lab(colour, VISION["normal"]) for colour in colours]
    alike = [np.linalg.norm(one - other) < 5 for one, other in combinations(seen, 2)]
    assert np.mean(alike) < 0.02, "six spare colours made it 0.17"
    for colour in colours:
        assert contrast(colour, "#ffffff") > 3
        assert contrast(colour, DARK_PAPER) > 3


def test_every_published_method_is_known_by_its_family() -> None:
    printed = set(published.table("offline")["method"]) | set(published.table("ablation")["method"])
    assert printed == set(methods.METHODS)
    free = [name for name, shown in methods.METHODS.items() if shown.family == "gradient-free"]
    assert free == ["standard", "neo", "lame", "adabn"]


def test_a_user_s_own_method_has_a_stable_look_and_a_runtime_changes_no_family() -> None:
    own = methods.card_of("lab.ideas:Mine")
    assert methods.card_of("tent@amp+compile").family == "gradient-based"
    assert methods.card_of("tuned@amp").family == "other"
    assert own == methods.card_of("lab.ideas:Mine")
    assert (own.label, own.family) == ("Mine", "other")
    assert methods.order("lab.ideas:Mine") > methods.order("zerosiam") > methods.order("standard")


def test_the_catalogue_says_what_the_classes_say() -> None:
    for name in names():
        kind, card = get(name), methods.METHODS.get(name)
        if card is not None:  # other tests register methods of their own
            assert (kind.label, kind.family, kind.modifies) == (card.label, card.family, card.modifies), name


def test_a_card_goes_into_plain_data_and_back() -> None:
    card = methods.MethodCard("Mine", "gradient-based", "#123abc", ("output",))
    assert methods.MethodCard.from_json("lab:Mine", card.to_json()) == card
    assert methods.MethodCard.from_json("lab:Mine", {}) == methods.card_of("lab:Mine")
    assert methods.MethodCard.from_json("lab:Mine", {"family": "of a damaged file"}).family == "other"


@pytest.mark.parametrize(
    "data", [{"label": 3}, {"modifies": "output"}, {"colour": "red"}, {"colour": "#12345g"}, {"colour": None}]
)
def test_what_is_no_card_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(TemporaError, match="the card of method 'lab:Mine'"):
        methods.MethodCard.from_json("lab:Mine", data)
