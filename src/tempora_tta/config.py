"""Keys of a run's configuration: each once, with its type, its default and the sentence that explains it.

YAML, the options of `tempora run`, those of `tempora.evaluate`, run.json and the reference are made from here. Only
the standard library is imported, since `--help` and the shell's completion wait for this file.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tempora_tta._own_code import is_own
from tempora_tta.errors import suggestion
from tempora_tta.names import GRIDS


def key(default: Any, description: str, **limits: Any) -> Any:
    """A key with its default and its sentence; `limits` are pydantic's (ge, gt, min_length, ...)."""
    told = {"description": description, **limits}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: copy.copy(default), metadata=told)
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Check:
    """A check besides the type: `before` it, to accept other spellings, or after; raises ValueError."""

    check: Callable[[Any], Any]
    before: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        around = (
            core_schema.no_info_before_validator_function
            if self.before
            else core_schema.no_info_after_validator_function
        )
        return around(self.check, handler(source))


def _no_truth(value: Any) -> Any:
    """Refuse what YAML makes of yes, no, on and off, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must not be true or false (nor yes, no, on, off)")
    return value


def listed(value: Any) -> Any:
    """Take a text with commas as a list."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, tuple) else value


def _grid(grid: str) -> str:
    if grid not in GRIDS and not is_own(grid):
        raise ValueError(suggestion(grid, GRIDS))
    return grid


def _scenarios(scenarios: list[Any]) -> list[Any]:
    for entry in scenarios:
        if not isinstance(entry, (str, dict)):
            raise ValueError("must be scenarios: {protocol: discrete, utilisation: 1}, or module:Class")
    return scenarios


def _seeds(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds) or not all(0 <= seed < 2**63 for seed in seeds):
        raise ValueError("must be whole numbers from 0 to 2^63 - 1, each once")
    return seeds


def _factor(factor: float | str) -> float | str:
    if not isinstance(factor, str) and not 1 <= factor < float("inf"):
        raise ValueError("must be a factor of at least 1, or tail")
    return factor


def _calibration(batches: int | str) -> int | str:
    if not isinstance(batches, str) and batches < 2:
        raise ValueError("must be at least 2, or sweep")
    return batches


def _clock(clock: Any) -> Any:
    if not isinstance(clock, (str, dict)):
        raise ValueError("must be a name, a file, or {baseline_ms: 40, tent: [41, 56]}")
    return clock


def _alone(name: str) -> Check:
    """A text stands for a mapping in which it has this name."""
    return Check(lambda value: {name: value} if isinstance(value, str) else value, before=True)


def _method(entry: Any) -> Any:
    """Take the keys that are not the entry's own for settings of its method."""
    if not isinstance(entry, dict):
        return entry
    own = {name: entry[name] for name in ("name", "label", "times_as", "tuned") if name in entry}
    return {**own, "settings": {name: value for name, value in entry.items() if name not in own}}


Whole = Annotated[int, Check(_no_truth, before=True)]
Number = Annotated[float, Check(_no_truth, before=True)]
Names = Annotated[list[str], Check(listed, before=True)]
STRICT = {"extra": "forbid"}
PROVISION_X = 1.03
"""lambda over Standard's steady time: what the published mean and lambda give on ResNet-50."""


@dataclass(frozen=True)
class DataConfig:
    """The images of a run."""

    __pydantic_config__ = STRICT

    dataset: str = key(
        "fashion", "A name from `tempora list datasets`, or module:function; fashion ships with Tempora."
    )
    root: Path | None = key(None, "Where the dataset lies on disk; the bundled one needs none.")
    severity: Whole = key(5, "Severity of corruptions, 1 to 5.", ge=1, le=5)
    shifts: Names = key(["all"], "Corruptions or groups (noise, blur, weather, digital), or all.")
    options: dict[str, Any] = key(
        {},
        "What this dataset alone can be told: subset, variant, version, classes, precropped, as_stored, corrupt.",
    )
    batches: str | None = key(
        None,
        "Instead of a dataset: module:function, which returns batches as `tempora.evaluate` takes them.",
    )
    workers: Whole | None = key(None, "Decoding threads; default one per core, 0 for none.", ge=0)
    cache_dir: Path | None = key(None, "Keep decoded shifts here for later runs.")
    pictures: bool | None = key(
        None,
        "Keep four small pictures of each shift for the report; default: if the dataset's licence allows it, and "
        "never of your own images.",
    )


@dataclass(frozen=True)
class SourceConfig:
    """Clean images for methods that ask for some (EATA, FOA): training images, never those of the stream."""

    __pydantic_config__ = STRICT

    dataset: str = field(metadata={"description": "A name from `tempora list datasets`, or module:function."})
    root: Path | None = key(None, "Where the dataset lies on disk.")
    shift: str | None = key(None, "Which of its shifts, where it has several.")
    samples: Whole = key(2000, "How many images are drawn.", ge=1)
    options: dict[str, Any] = key({}, "What this dataset alone can be told.")


@dataclass(frozen=True)
class PreprocessingConfig:
    """Preparation of images where it shall not be the network's own: what is left out stays as it is."""

    __pydantic_config__ = STRICT

    crop_pct: Number | None = key(
        None, "Images are resized to input size / crop_pct before the crop.", gt=0, le=1
    )
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] | None = key(None, "Of resizing.")
    mean: list[Number] | None = key(None, "Subtracted, per channel.")
    std: list[Number] | None = key(None, "Divided by, per channel.")


Selector = Literal["labels", "mutual_information", "confidence", "entropy", "atc"]


@dataclass(frozen=True)
class TunedConfig:
    """Origin of settings that `tempora tune` chose: by labels or by a score, of which network, on which images."""

    __pydantic_config__ = STRICT

    by: Selector
    model: str
    dataset: str
    shifts: list[str]
    batch_size: Whole
    trials: Whole

    @property
    def oracle(self) -> bool:
        """Chosen by labels, which no deployment has: a ceiling, which is neither ranked nor recommended."""
        return self.by == "labels"


@dataclass(frozen=True)
class MethodConfig:
    """A method with settings of its own: `name`, an optional `label`, `times_as` (the method whose recorded times
    stand for its own), `tuned` (where its settings come from), and the method's own settings."""

    name: str
    label: str = ""
    times_as: str = ""
    tuned: TunedConfig | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunConfig:
    """One run: a network, methods, shifts, scenarios, and how they are timed."""

    __pydantic_config__ = STRICT

    suite: str | None = key(
        None, "The suite that this configuration belongs to; what departs from it is named."
    )
    model: str = key(
        "fashion_resnet",
        "A name from `tempora list models`, one of timm's, or module:function of your own.",
    )
    checkpoint: Path | None = key(None, "Weights (.safetensors, or .pt) instead of the model's own.")
    pretrained: bool = key(True, "Use the trained weights; false leaves them random, for timing only.")
    preprocessing: PreprocessingConfig | None = key(
        None,
        "Instead of the network's own: {crop_pct: 0.875, interpolation: bilinear}, also mean and std.",
    )
    data: DataConfig = key(DataConfig(), "Which images.")
    source: Annotated[SourceConfig | None, _alone("dataset")] = key(
        None,
        "Clean training images for EATA and FOA: a dataset's name, or {dataset: ..., root: ..., samples: 2000}; "
        "fashion has its own.",
    )
    methods: Annotated[
        list[str | Annotated[MethodConfig, Check(_method, before=True)]], Check(listed, before=True)
    ] = key(
        ["all"],
        "Names, module:Class, or {name: tent, label: mine, lr: 0.002}; all: those that fit the model, without cotta, "
        "foa and memo.",
    )
    grid: Annotated[str, Check(_grid)] = key(
        "relative",
        "Scenarios besides Offline: a name from `tempora list scenarios`, or module:function, which returns them.",
    )
    scenarios: Annotated[list[Any], Check(_scenarios)] = key(
        [],
        "More of them: {protocol: discrete, utilisation: 1}, module:Class, or with settings "
        "{scenario: module:Class, ...}.",
    )
    queue: Whole = key(1, "Batches that may wait, in the grid's discrete scenarios.", ge=0)
    rule: Literal["strict", "overshoot"] = key("strict", "Budget rule of the grid's amortised ones.")
    runtimes: Names = key(
        ["eager"],
        "How each method runs: eager, tf32, amp, compile, channels_last, some with +, or onnx (on a CPU).",
        min_length=1,
    )
    predict_with: str | None = key(
        None,
        "steady and recorded clocks: predict with tf32, amp or channels_last where that agrees with what is timed.",
    )
    seeds: Annotated[list[Whole], Check(_seeds), Check(listed, before=True)] = key(
        [2025], "Orders of the stream; each is run.", min_length=1
    )
    stream: Annotated[dict[str, Any] | None, _alone("kind")] = key(
        {"kind": "single"},
        "Order of shifts and classes: single, continual, gradual, recurring, mixed, module:function, or {kind: "
        "continual, batches: 10, reset: shift, classes: shuffled, order: numpy}; null: batches as given.",
    )
    batch_size: Whole = key(
        64,
        "Samples per batch. Several, [1, 4, 16, 64], are a run each over the same images; `batches` counts the "
        "largest.",
        ge=1,
    )
    batches: Whole | None = key(None, "Use only the first N batches of each shift.", ge=1)
    preset: Literal["paper"] | None = key(
        None,
        "paper: as behind the published tables, where nothing else is given: order torch, rule overshoot, "
        "calibration_batches sweep, the methods' settings of that name.",
    )
    device: str = key("auto", "auto, cpu, cuda, cuda:N or mps.")
    threads: Whole | None = key(
        None, "CPU threads of torch; default one under steady, else as torch chooses.", ge=1
    )
    clock: Annotated[str | dict[str, Any], Check(_clock, before=True)] = key(
        "steady",
        "steady (profile this machine first), measured, a profile's file, published:rn50_inc, or constants "
        "{baseline_ms: 40, tent: [41, 56]}.",
    )
    profile_s: Number = key(
        180.0,
        "steady: seconds that the profile may take; it ends when it is good.",
        gt=0,
        allow_inf_nan=False,
    )
    provision_x: Annotated[Number | Literal["tail"], Check(_factor)] = key(
        PROVISION_X, "steady: lambda over Standard's steady time; tail: its clean 99th percentile."
    )
    baseline_ms: Number | None = key(
        None, "lambda; default measured, or the profile's.", gt=0, allow_inf_nan=False
    )
    calibration_batches: Annotated[Whole | Literal["sweep"], Check(_calibration)] = key(
        700, "measured: batches of standard inference that lambda comes from; sweep: all of every shift."
    )
    provision: Number = key(6.0, "measured: lambda = mean + provision * sigma.", ge=0, allow_inf_nan=False)
    warmup_batches: Whole = key(5, "measured: batches before each pass that do not count.", ge=0)
    method_timeout_s: Number | None = key(
        None, "Seconds that one call into a method may take; default any.", gt=0, allow_inf_nan=False
    )
    share: bool = key(True, "Share passes between scenarios where the result is the same.")
    deterministic: bool = key(False, "Deterministic algorithms on CUDA: slower, repeatable to the bit.")

    def preparation(self) -> dict[str, Any]:
        """The fields of `preprocessing` that are given."""
        given = {} if self.preprocessing is None else vars(self.preprocessing)
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
            if value is not None
        }

    def plain(self) -> dict[str, Any]:
        """The configuration as YAML and run.json hold it."""
        return {each.name: as_plain(getattr(self, each.name)) for each in dataclasses.fields(self)}


def checked(values: Mapping[str, Any]) -> RunConfig:
    """The configuration of these values; pydantic's ValidationError says what is wrong with which."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunConfig).validate_python(_with_preset(dict(values)))


def _with_preset(values: dict[str, Any]) -> dict[str, Any]:
    """Put what the preset says where the values say nothing; streams of the user's own have their own order."""
    if values.get("preset") != "paper":
        return values
    stream = values.get("stream", "single")
    settings = {"kind": stream} if isinstance(stream, str) else stream
    if isinstance(settings, Mapping) and not is_own(str(settings.get("kind", "single"))):
        values["stream"] = {"order": "torch", **settings}
    return {"rule": "overshoot", "calibration_batches": "sweep", **values}


def as_plain(value: Any) -> Any:
    """A part of a configuration as YAML and run.json hold it."""
    if isinstance(value, MethodConfig):
        own = {name: as_plain(given) for name, given in vars(value).items() if name != "settings" and given}
        return {**own, **as_plain(value.settings)}
    if dataclasses.is_dataclass(value):
        return {each.name: as_plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def template() -> str:
    """A commented configuration with every key at its default."""
    text = ["# A Tempora run: tempora run THIS_FILE --out DIR", ""]
    for each in dataclasses.fields(RunConfig):
        if each.name == "data":
            text.append("data:")
            text += [f"  {line}" for inner in dataclasses.fields(DataConfig) for line in _entry(inner)]
        else:
            text += _entry(each)
    return "\n".join(text) + "\n"


def _entry(each: dataclasses.Field[Any]) -> list[str]:
    import yaml

    default = yaml.safe_dump(default_of(each), default_flow_style=True).replace("\n...", "").strip()
    return [f"# {each.metadata['description']}", f"{each.name}: {default}"]


def default_of(each: dataclasses.Field[Any]) -> Any:
    """Return the value of a key that is not given."""
    return each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
