"""Schedules: when batches arrive, how many may wait, what patience and budget there are. Odd lists and numbers are
refused in words; all that is accepted obeys the laws of the time model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from command import restrained, tempora
from configurations import PROFILE, TINY
from mutations import ODD_NUMBERS, odd_value, spoil_data, spoil_text

LONG = 10**19
"""More batches than any number of 64 bits counts."""
WAITS = (0, 0, 1, 1, 2, 7, 1000, LONG, -1, 0.5, True, None, "1", [1])
BASELINE_MS = 40.0


def case(rng: Random) -> None:
    spec = _spec(rng)
    if rng.random() < 0.3:
        spec = spoil_data(rng, spec)
    depth = rng.random()
    if depth < 0.03:
        _on_the_command_line(rng, spec)
    elif depth < 0.25:
        _in_a_file(rng, spec)
    elif isinstance(spec, dict):
        _in_python(rng, spec)


def arrivals(rng: Random) -> Any:
    """A recorded list: honest, with ties, unsorted, with gaps, far too long or not a list of numbers at all."""
    length = rng.choice((0, 1, 2, 3, 8, 40, 400))
    times: list[Any] = sorted(
        round(rng.uniform(0, 60 * length), rng.choice((0, 1, 6))) for _ in range(length)
    )
    kind = rng.randrange(8)
    if kind == 0 and times:
        times[rng.randrange(length)] = rng.choice((*ODD_NUMBERS, None, "5", True, [1.0], {}))
    elif kind == 1:
        rng.shuffle(times)
    elif kind == 2:
        times = [times[0]] * length if times else times
    elif kind == 3:
        times = [time + rng.choice((1e6, 1e15, 1e300)) for time in times]
    elif kind == 4:
        times = [-time for time in reversed(times)]
    elif kind == 5:
        return odd_value(rng)
    return times


def _spec(rng: Random) -> dict[str, Any]:
    def number(*good: float) -> Any:
        return rng.choice(ODD_NUMBERS) if rng.random() < 0.2 else rng.choice(good)

    knobs: dict[str, Any] = {
        "protocol": rng.choice(("deployment", "deployment", "discrete", "continuous", "amortised"))
    }
    if knobs["protocol"] == "deployment":
        feed = rng.randrange(4)
        knobs |= [
            {"arrivals": arrivals(rng)},
            {"interval_ms": number(1, 60, 400)},
            {"utilisation": number(0.5, 1)},
            {},
        ][feed]
        if feed == 3:
            knobs["arrivals"] = rng.choice(("on_completion", "on_prediction", "on_time"))
    elif knobs["protocol"] == "discrete":
        knobs |= rng.choice(({"interval_ms": number(1, 60)}, {"utilisation": number(0.25, 1, 3)}, {}))
    elif knobs["protocol"] == "continuous":
        knobs |= rng.choice(({"threshold_ms": number(41, 100)}, {"threshold_x": number(1.25, 25)}))
    else:
        knobs |= rng.choice(
            ({"budget_ms": number(0, 100)}, {"budget_x": number(0.25, 1)}, {"budget_baselines": number(25)})
        )
    if rng.random() < 0.5 and knobs["protocol"] in ("deployment", "discrete"):
        knobs["queue"] = rng.choice(WAITS)
    if rng.random() < 0.4 and knobs["protocol"] == "deployment":
        knobs |= {"threshold_ms": number(41, 100), "budget_ms": number(0, 100, math.inf)}
    if rng.random() < 0.3 and knobs["protocol"] in ("deployment", "amortised"):
        knobs["rule"] = rng.choice(("strict", "overshoot", "loose", None))
    return knobs


def _in_python(rng: Random, spec: dict[str, Any]) -> None:
    """Accepted ones survive being stored, and their scores hold together."""
    from tempora_tta.scenarios import SIX_TERMS, from_spec, to_spec

    scenario = from_spec(spec)
    stored = json.loads(json.dumps(to_spec(scenario)))
    assert from_spec(stored) == scenario, f"{stored} is another scenario"
    assert scenario.label.strip()
    batches = rng.choice((1, 2, 3, 8, 40))
    if scenario.not_applicable(BASELINE_MS) is not None:
        return
    resolved = scenario.resolve(num_batches=batches, baseline_ms=BASELINE_MS)
    predict_ms, adapt_ms = (
        np.array([rng.choice((0.0, 1e-9, 20.0, 41.0, 500.0, rng.uniform(0, 90))) for _ in range(batches)])
        for _ in range(2)
    )
    from tempora_tta.scenarios import replay

    course = replay(resolved.timeline(), predict_ms, adapt_ms, predict_ms)
    accuracy = np.array([rng.choice((0.0, 1.0, rng.random())) for _ in range(batches)])
    score = resolved.score(course, accuracy[course.served])
    availability, adapted, adapt, frozen, responsiveness, covariance = (
        score.terms[name] or 0.0 for name in SIX_TERMS
    )
    again = availability * ((adapted * adapt + (1 - adapted) * frozen) * responsiveness + covariance)
    assert abs(again - score.utility) <= 1e-9, (
        f"{spec}: its terms give {again}, its utility is {score.utility}"
    )
    assert -1e-12 <= score.utility <= 1 + 1e-12, f"{spec}: utility {score.utility}"
    assert (np.diff(course.served) > 0).all(), f"{spec}: served out of order"
    assert (course.start_ms >= course.arrived_ms).all(), f"{spec}: served before it came"
    assert (course.start_ms[1:] >= course.finish_ms[:-1]).all(), f"{spec}: two batches at once"


def _in_a_file(rng: Random, spec: Any) -> None:
    from tempora_tta.engine.build import scenarios_of
    from tempora_tta.engine.load_config import load_config

    text = yaml.safe_dump({**TINY, "scenarios": [spec]}, default_flow_style=rng.choice((None, True, False)))
    if rng.random() < 0.2:
        text = spoil_text(rng, text)
    Path("config.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with restrained():
        for scenario in scenarios_of(load_config(Path("config.yaml"))):
            if scenario.not_applicable(BASELINE_MS) is None:
                scenario.resolve(num_batches=2, baseline_ms=BASELINE_MS)


def _on_the_command_line(rng: Random, spec: Any) -> None:
    Path("clock.json").write_text(json.dumps(PROFILE))
    Path("config.yaml").write_text(yaml.safe_dump(TINY))
    inline = yaml.safe_dump([spec], default_flow_style=True, width=10**6).strip()
    tempora("run", "config.yaml", "--set", f"scenarios={inline}", "--plain", "--out", "out")
