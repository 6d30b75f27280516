"""Equal tuning: every method's declared settings, as many trials each, on corruptions that no run evaluates.

Which trial is best is said by labels (an oracle: no deployment has them) or by a score that needs none. All come from
the same passes, so that what each would have chosen, and what that costs, is known.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from tempora_tta import methods
from tempora_tta.config import MethodConfig, Selector, TunedConfig, as_plain
from tempora_tta.data import Stream
from tempora_tta.errors import TemporaError, counted
from tempora_tta.methods.contract import Source, adapt_at, predict_at
from tempora_tta.methods.settings import LogRange, Range
from tempora_tta.models import Classifier
from tempora_tta.store.atomic import write_atomically

LABELS, MUTUAL_INFORMATION, ATC = "labels", "mutual_information", "atc"
SELECTORS: tuple[str, ...] = get_args(Selector)
LABEL_FREE = tuple(by for by in SELECTORS if by != LABELS)
COLLAPSED = 0.10
"""So much below standard inference is a collapse."""

Progress = Callable[[str, int, int], None]
"""Method, trial, trials."""
Passed = tuple[float, dict[str, float]]
"""Accuracy and label-free scores of a pass."""
Chances = np.ndarray[Any, np.dtype[np.float64]]
Labels = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Trial:
    """One choice of settings and what came of it."""

    settings: dict[str, Any]
    accuracy: float
    scores: dict[str, float] = field(default_factory=dict)
    """Without labels of the shift, larger is better; no `atc` where there was no threshold for it."""

    def score(self, by: str) -> float:
        return self.accuracy if by == LABELS else self.scores[by]


@dataclass(frozen=True)
class Tuned:
    """All trials of one method; the first is its default."""

    method: str
    trials: tuple[Trial, ...]

    @property
    def default(self) -> Trial:
        return self.trials[0]

    @property
    def label_free(self) -> tuple[str, ...]:
        """The scores that all trials have."""
        return tuple(by for by in LABEL_FREE if all(by in trial.scores for trial in self.trials))

    def entry(self, tuned: TunedConfig) -> MethodConfig:
        """The best trial, as an entry of `methods` of a run."""
        if len(self.trials) == 1:
            return MethodConfig(self.method)
        return MethodConfig(self.method, tuned=tuned, settings=self.chosen(tuned.by).settings)

    def chosen(self, by: str) -> Trial:
        """The best trial by labels or a score; of equals, the earliest."""
        return max(self.trials, key=lambda trial: trial.score(by))

    def regret(self, by: str) -> float:
        """Accuracy that choosing so gives away to the oracle."""
        return self.chosen(LABELS).accuracy - self.chosen(by).accuracy


def tune(
    name: str,
    model: Classifier,
    streams: Sequence[Stream],
    count: int,
    progress: Progress | None = None,
    *,
    source: Source | None = None,
    threshold: float | None = None,
) -> Tuned:
    """Try a method's declared settings `count` times, from its own defaults: a network's recipe is a tuning, too.

    source: clean images for methods that ask for some. threshold: see `atc_threshold`.
    """
    found = []
    planned = plan(name, model, count, source)
    for number, settings in enumerate(planned):
        if progress is not None:
            progress(name, number + 1, len(planned))
        method = methods.create(name, model, recipe=False, source=source, **settings)
        found.append(trial_of(settings, [one_pass(method, stream, threshold) for stream in streams]))
    return Tuned(name, tuple(found))


def plan(name: str, model: Classifier, count: int, source: Source | None = None) -> list[dict[str, Any]]:
    """The settings of every trial; the first are the method's defaults."""
    if count < 1:
        raise TemporaError(f"trials={count}: must be at least 1")
    if methods.get(name).time_aware:
        raise TemporaError(f"{name}: decides by the clock, so it cannot be tuned without one; leave it out")
    defaults = methods.create(name, model, recipe=False, source=source).settings
    _, *others = trials(defaults, count)
    return [{key: getattr(defaults, key) for key in searched(defaults)}, *others]


def searched(settings: methods.Settings) -> Mapping[str, LogRange | Range]:
    """The settings that tuning may change, of those that have a value."""
    return {
        field.name: field.metadata["search"]
        for field in dataclasses.fields(settings)
        if field.metadata.get("search") is not None and getattr(settings, field.name) is not None
    }


def trials(settings: methods.Settings, count: int) -> Iterator[dict[str, Any]]:
    """Return the settings of `count` trials, the default first; it alone where nothing is declared.

    The others go through the declared ranges in an order in which every beginning covers them evenly (Halton's), so
    more trials contain fewer. `settings` are resolved, so that every default is a number.
    """
    ranges = searched(settings)
    yield {}
    for number in range(1, count) if ranges else ():
        yield {
            name: _rounded(where.at(_halton(number, base), getattr(settings, name)), getattr(settings, name))
            for (name, where), base in zip(ranges.items(), (2, 3, 5, 7), strict=False)
        }


def _halton(number: int, base: int) -> float:
    """The digits of a number mirrored behind the point.

    >>> [_halton(number, 2) for number in (1, 2, 3, 4)]
    [0.5, 0.25, 0.75, 0.125]
    """
    share, digit = 0.0, 1.0
    while number:
        digit /= base
        number, rest = divmod(number, base)
        share += digit * rest
    return share


def _rounded(value: float, default: float) -> float | int:
    """Three digits; whole where the default is."""
    return max(1, round(value)) if isinstance(default, int) else float(f"{value:.3g}")


def trial_of(settings: dict[str, Any], passes: Sequence[Passed]) -> Trial:
    """One pass per stream, all of which count the same."""
    scores = {name: float(np.mean([told[name] for _, told in passes])) for name in passes[0][1]}
    return Trial(settings, float(np.mean([accuracy for accuracy, _ in passes])), scores)


def one_pass(method: methods.Method, stream: Stream, threshold: float | None = None) -> Passed:
    """Accuracy and label-free scores of one method over one stream, untimed."""
    method.reset()
    chances, labels = _predicted(method, stream, range(stream.num_batches))
    return float((chances.argmax(1) == labels).mean()), label_free(chances, threshold)


def _predicted(method: methods.Method, stream: Stream, batches: Iterable[int]) -> tuple[Chances, Labels]:
    """Probabilities (samples, classes) while adapting, and the labels."""
    chances, labels = [], []
    for index in batches:
        given = predict_at(method, stream.batch(index)).detach().double().cpu()
        adapt_at(method)
        labels.append(stream.labels(index))
        chances.append(given if method.scores_are == "probabilities" else torch.softmax(given, 1))
    return torch.cat(chances).numpy(), np.concatenate(labels)


def label_free(chances: Chances, threshold: float | None = None) -> dict[str, float]:
    """The scores of predictions, (samples, classes), larger is better; minus infinity where they are no numbers.

    Mutual information is high for predictions that are sure and differ from sample to sample; sureness alone is
    highest for a network that calls everything the same. `atc` is the share of samples surer than the threshold.
    """
    names = LABEL_FREE if threshold is not None else tuple(name for name in LABEL_FREE if name != ATC)
    if not np.isfinite(chances).all():
        return dict.fromkeys(names, -np.inf)
    entropy, sureness = float(_entropy(chances).mean()), chances.max(1)
    return {
        MUTUAL_INFORMATION: float(_entropy(chances.mean(0))) - entropy,
        "confidence": float(sureness.mean()),
        "entropy": -entropy,
        **({} if threshold is None else {ATC: float((sureness >= threshold).mean())}),
    }


def atc_threshold(model: Classifier, clean: Stream, batches: int) -> float:
    """Return the threshold of average thresholded confidence (Garg et al., 2022): surer predictions count as right.

    On the last `batches` batches of a clean labelled stream, as many of standard inference's predictions are surer
    as are right. Streams of one seed take their images from the other end, so theirs are others.
    """
    last = range(max(0, clean.num_batches - batches), clean.num_batches)
    chances, labels = _predicted(methods.create("standard", model), clean, last)
    wrong = float((chances.argmax(1) != labels).mean())
    return float(np.quantile(chances.max(1), wrong))


def _entropy(chances: Chances) -> Any:
    safe = np.clip(chances, 1e-300, 1.0)
    return -(chances * np.log(safe)).sum(-1)


def write_methods(path: Path, found: Iterable[Tuned], tuned: TunedConfig) -> None:
    """Write a configuration whose methods have the settings that were chosen."""
    methods = ["standard", *(one.entry(tuned) for one in found if one.method != "standard")]
    content = {
        "model": tuned.model,
        "data": {"dataset": tuned.dataset},
        "batch_size": tuned.batch_size,
        "methods": as_plain(methods),
    }
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def described(tuned: Tuned, standard: float) -> str:
    """Say whether the choice of the label-free scores has collapsed."""
    fallen = [by for by in tuned.label_free if tuned.chosen(by).accuracy < standard - COLLAPSED]
    return f"{counted(len(fallen), 'score')} chose a collapse" if fallen else ""
