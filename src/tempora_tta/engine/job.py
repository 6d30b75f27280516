"""A job: everything that a run needs to know, with every name already turned into the thing it names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from tempora_tta import methods
from tempora_tta._version import __version__
from tempora_tta.cards import scenario_cards
from tempora_tta.config import RunConfig, TunedConfig
from tempora_tta.data import Order, Stream
from tempora_tta.engine.code_hash import CodeHash, code_hash
from tempora_tta.engine.runtime import EAGER, Runtime
from tempora_tta.errors import TemporaError
from tempora_tta.methods import Method
from tempora_tta.methods.guard import Guard
from tempora_tta.models import Classifier
from tempora_tta.published.methods import MethodCard, card_of, check_colour, colour_in, family_called
from tempora_tta.scenarios import Offline, Resolved, Scenario
from tempora_tta.store.record import made_with
from tempora_tta.timing import Baseline, Clock, ProfileClock

STANDARD = "standard"


def may_ask_for_source(method: str | type[Method]) -> bool:
    """Return whether source images may decide what a method does: ours declare them, others may ask for any."""
    kind = methods.get(method)
    ours = kind.__module__.partition(".")[0] == "tempora_tta"
    return hasattr(kind.Settings, "samples") or not ours


@dataclass(frozen=True)
class MethodSpec:
    """A method as a run names it: which one, with which settings, in which runtime, under which label."""

    name: str | type[Method]
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    runtime: str = EAGER
    times_as: str = ""
    """The method whose times stand for its own; empty: its own."""
    tuned: TunedConfig | None = None
    """Origin of its settings, if `tempora tune` chose them."""
    at_once: int | None = None
    """Images that it learns from together, where it answers frames at once."""
    if_it_fits: bool = False
    """Left out, not an error, where it does not fit the network."""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self._own_name)

    @property
    def _own_name(self) -> str:
        kind = methods.get(self.name)
        return kind.name or kind.__name__

    @property
    def shown_as(self) -> str:
        """Its name in tables and figures: the label of its class, unless the run gives it one of its own."""
        name, at, runtime = self.label.partition("@")
        label, (own, space, way) = methods.get(self.name).label, name.partition(" (")
        return f"{label}{space}{way}{at}{runtime}" if label and own == self._own_name else self.label

    @property
    def card(self) -> MethodCard:
        """Card of the method in the results: its class's, under the name that the run gives it."""
        kind, named = methods.get(self.name), card_of(self.label)
        colour = named.colour
        if kind.colour:
            chosen = check_colour(kind.colour, f"method {kind.__name__}")
            colour = colour_in(self.label.partition("@")[2], chosen)
        return MethodCard(self.shown_as, family_called(kind.family), colour, kind.modifies)

    def under(self, runtime: str) -> MethodSpec:
        """The same method in another runtime: `tent@tf32`."""
        if runtime == EAGER:
            return self
        return dataclasses.replace(self, runtime=runtime, label=f"{self.label}@{runtime}")

    @property
    def oracle(self) -> bool:
        return self.tuned is not None and self.tuned.oracle

    @property
    def is_standard(self) -> bool:
        return self.name == STANDARD and not self.settings


def create_method(
    spec: MethodSpec,
    model: Classifier,
    seed: int,
    *,
    preset: str | None = None,
    source: torch.Tensor | None = None,
) -> Method:
    """The method on its own copy of a network, in its runtime."""
    runtime = Runtime.parse(spec.runtime)
    return runtime.attach(
        methods.create(
            spec.name,
            runtime.prepare(model),
            seed=seed,
            preset=preset,
            source=source,
            at_once=spec.at_once,
            **spec.settings,
        )
    )


@dataclass(frozen=True)
class Job:
    """One network, its methods, the streams and scenarios they meet, and how they are timed."""

    model: Classifier
    methods: tuple[MethodSpec, ...]
    scenarios: tuple[Scenario, ...]
    streams: tuple[Order, ...]
    """The orders of batches that every method meets."""
    open_stream: Callable[[Order], Stream]
    """Decodes what an order needs, when a pass has to be made over it."""
    clock: Clock
    device: torch.device
    config: RunConfig
    """What was asked for: seeds and settings of the clock, of sharing, of calls."""
    named: bool = False
    """Whether the configuration names everything, so that the same job can be made from it."""
    baseline: Baseline | None = None
    """Given or recorded; None: measured when the run starts."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Facts about it."""
    machine_kind: str = ""
    source: torch.Tensor | None = None
    """Clean images, normalised, for methods that ask for some when they are made."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else belongs in run.json: dataset, suite, recipes."""
    notes: tuple[str, ...] = ()
    """Notes made while it was built."""
    pictures: Callable[[], Mapping[str, bytes]] | None = None
    """Makes small pictures of its shifts for the report; None: none may be kept."""
    own_modules: tuple[str, ...] = ()
    """Modules of the user's own that the network comes from, besides those of its classes."""
    made: dict[str, Method] = field(default_factory=dict, repr=False, compare=False)
    """Methods that were made to see whether they fit, for their first tasks."""

    def __post_init__(self) -> None:
        labels = [spec.label for spec in self.methods]
        for label in labels:
            if labels.count(label) > 1:
                raise TemporaError(
                    f"two methods are called {label!r}: give one of them a label of its own (label: ...)"
                )
        if not labels:
            raise TemporaError("no method to run: give at least one")
        if all(spec.oracle for spec in self.methods):
            raise TemporaError(
                f"{', '.join(labels)}: all settings were chosen by labels (an oracle): a ceiling, which stands in "
                "no ranking; add what it stands above, such as standard, to the methods"
            )
        if not self.streams:
            raise TemporaError("no shift to run on: give at least one")
        self._check_scenarios()

    def _check_scenarios(self) -> None:
        """A scenario that no stream of the run can have is refused; where some can, the others' cells say why not."""
        for scenario in self.scenarios:
            misfits = [scenario.misfit(source.num_batches, source.batch_size) for source in self.streams]
            if all(misfits):
                raise TemporaError(f"scenario {scenario.label!r}: {misfits[0]}")

    @property
    def at_once(self) -> tuple[int, ...]:
        """Numbers of images that its scenarios learn from together, where they answer frames at once."""
        sizes = (scenario.deployment().at_once for scenario in self.scenarios)
        return tuple(sorted({size for size in sizes if size is not None}))

    @property
    def tail_batches(self) -> int:
        """Batches that an untimed frozen tail may predict at once: several on a GPU where no clock runs."""
        return 4 if isinstance(self.clock, ProfileClock) and self.device.type != "cpu" else 1

    @property
    def predict_with(self) -> str:
        """Predictions are made in this runtime where it agrees with the one that is timed; eager: in that one."""
        return str(Runtime.parse(self.config.predict_with or EAGER))

    @property
    def profile_threads(self) -> int | None:
        """Threads of the profile; None where the device is no processor."""
        return profile_threads(self.config.threads, self.device)

    @property
    def measured(self) -> bool:
        return self.clock.name == "measured"

    def create(self, spec: MethodSpec, seed: int, predict_with: str = EAGER) -> Method:
        """The method on its own copy of the network, in its runtime; `predict_with` besides, if it only predicts."""
        runtime = Runtime.parse(spec.runtime).with_parts_of(Runtime.parse(predict_with))
        with self.guard(spec)("setup"):
            return create_method(
                dataclasses.replace(spec, runtime=str(runtime)),
                self.model,
                seed,
                preset=self.config.preset,
                source=self.source,
            )

    def take(self, spec: MethodSpec, seed: int) -> Method:
        """The method for a task: the one that was made to see whether it fits, once, or a new one."""
        first = seed == self.streams[0].seed and spec.at_once is None
        made = self.made.pop(spec.label, None) if first else None
        return made or self.create(spec, seed)

    def guard(self, spec: MethodSpec) -> Guard:
        """Return the guard around every call into a method."""
        return Guard(spec.label, self.config.method_timeout_s)

    def code_hash(self, spec: MethodSpec) -> CodeHash:
        """Hash the user's own code behind a method, once in a run."""
        if spec.label not in self._code_hashes:
            self._code_hashes[spec.label] = code_hash(methods.get(spec.name))
        return self._code_hashes[spec.label]

    @cached_property
    def _code_hashes(self) -> dict[str, CodeHash]:
        return {}

    @cached_property
    def _network(self) -> str | None:
        """Hash the user's own code behind the network: other code may do other things with the same weights."""
        kinds = dict.fromkeys(type(module) for module in self.model.modules())
        return code_hash(*kinds, *self.own_modules).hash

    @cached_property
    def preprocessing(self) -> dict[str, Any] | None:
        """Preparation of images for the network; None: unknown, and nothing has needed it."""
        with suppress(TemporaError):
            return dataclasses.asdict(self.model.preprocessing)
        return None

    @cached_property
    def weights(self) -> str:
        """The network does not change during a run."""
        return self.model.weights_hash()

    @cached_property
    def _source_hash(self) -> str:
        images = (
            b""
            if self.source is None
            else self.source.detach().cpu().contiguous().view(torch.uint8).numpy().data
        )
        return hashlib.sha256(images).hexdigest()[:16]

    def _source_of(self, spec: MethodSpec) -> dict[str, str]:
        """The source images, where they may decide what a method does: ours say whether they ask for some."""
        asked = self.source is not None and may_ask_for_source(spec.name)
        return {"source_images": self._source_hash} if asked else {}

    def standard(self, runtime: str = EAGER) -> MethodSpec | None:
        """Standard in that runtime, if it is among the methods."""
        return next((spec for spec in self.methods if spec.is_standard and spec.runtime == runtime), None)

    @cached_property
    def made_by_label(self) -> dict[str, str]:
        """By label, Standard's too: a hash of the method's settings and, of the user's own, its code. Another one
        may take another time."""
        specs = {STANDARD: MethodSpec(STANDARD)} | {spec.label: spec for spec in self.methods}
        texts = {
            label: json.dumps(self._of_method(spec), sort_keys=True, default=str)
            for label, spec in specs.items()
        }
        return {label: hashlib.sha256(text.encode()).hexdigest()[:12] for label, text in texts.items()}

    def _of_method(self, spec: MethodSpec) -> dict[str, Any]:
        name = spec.name if isinstance(spec.name, str) else f"{spec.name.__module__}:{spec.name.__qualname__}"
        return {
            "name": name,
            "settings": dict(spec.settings),
            **({} if (own := self.code_hash(spec).hash) is None else {"source": own}),
            **({} if self._network is None else {"network": self._network}),
            "preset": self.config.preset,
            "recipe": methods.recipe_for(methods.get(spec.name), self.model)[1],
            **self._source_of(spec),
        }

    def made_with(self, spec: MethodSpec) -> dict[str, Any]:
        """Its settings, as run.json keeps them."""
        runtime = {} if spec.runtime == EAGER else {"runtime": spec.runtime}
        return made_with({**self._of_method(spec), **runtime})

    def identity(self, spec: MethodSpec, stream: Order, kind: str, **more: Any) -> dict[str, Any]:
        """Everything that decides a pass: same identity, same result."""
        return {
            "kind": kind,
            "model": self.model.name,
            "weights": self.weights,
            "method": spec.label,
            **self._of_method(spec),
            "shift": stream.shift,
            "data": stream.fingerprint,
            "seed": stream.seed,
            "batch_size": stream.batch_size,
            "num_batches": stream.num_batches,
            **stream.identity(),
            **({"preprocessing": given} if (given := self.config.preparation()) else {}),
            "clock": self.clock.name,
            "machine": self.machine_kind if self.measured else "",
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "version": __version__,
            **({} if spec.runtime == EAGER else {"runtime": spec.runtime}),
            **({"times_as": spec.times_as} if spec.times_as else {}),
            **({} if self.predict_with == EAGER else {"predict_with": self.predict_with}),
            **more,
        }


def profile_threads(threads: int | None, device: torch.device) -> int | None:
    """One CPU thread by default: with more, other programs distort the ratios of times."""
    return (threads or 1) if device.type == "cpu" else None


def deployment_identity(resolved: Resolved, time_aware: bool) -> dict[str, Any]:
    """The knobs that decide which batches a live pass serves, adapts on and times.

    What a response is worth changes the score and not the pass, unless the method looks at the clock.
    """
    knobs = dataclasses.asdict(resolved)
    del knobs["waited_ms"]
    if resolved.at_once is None:
        del knobs["at_once"]
    if knobs.pop("periodic"):
        del knobs["arrivals_ms"]
        if resolved.arrivals_ms is not None and (first_ms := resolved.arrivals_ms[0]) > 0:
            knobs["first_ms"] = first_ms  # with frames, when the first batch is full
    if resolved.waits or resolved.fallback is None:
        del knobs["fallback"], knobs["fallback_cost"]
    if not resolved.guesses:
        del knobs["classes"]
    if not resolved.residuals:
        del knobs["residuals"]
    if not (time_aware and math.isfinite(resolved.deadline_ms)):
        del knobs["deadline_ms"]
    if not time_aware:
        del knobs["threshold_ms"]
        knobs["untimed_tail"] = resolved.untimed_tail
        if resolved.budget_ms == float("inf"):
            del knobs["baseline_ms"], knobs["rule"]
    return {name: repr(value) if isinstance(value, float) else value for name, value in knobs.items()}


def with_offline(scenarios: list[Scenario] | tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    """The scenarios of a run: Offline always comes first, none comes twice, and each can be told from the others."""
    unique: list[Scenario] = []
    for scenario in (Offline(), *scenarios):
        if scenario not in unique:
            unique.append(scenario)
    known: set[tuple[object, ...]] = set()
    for scenario in unique:
        deployment = scenario.deployment()
        shown = (scenario.protocol, scenario.label, deployment.queue, deployment.rule)
        if shown in known:
            raise TemporaError(
                f"two scenarios are both called {scenario.label!r}: give one of them a name of its own (name=...)"
            )
        known.add(shown)
    scenario_cards(unique)  # raises if two kinds share a name
    return tuple(unique)
