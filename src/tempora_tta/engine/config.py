"""What a run can be told: every key of its configuration, strict, with a sentence about each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from tempora_tta._own_code import is_own
from tempora_tta.errors import suggestion
from tempora_tta.names import GRIDS
from tempora_tta.scenarios._validate import MOST_WAITING


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_values_for_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads yes, no, on and off as true and false, which Python takes for 1 and 0."""
        truths = [
            entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, bool)
        ]
        wanted = cls.model_fields[str(info.field_name)].annotation
        if truths and bool not in (wanted, *get_args(wanted)):
            raise ValueError("must not be true or false (nor yes, no, on, off)")
        return value


class DataConfig(_Strict):
    """Which images."""

    dataset: str = Field(
        "fashion",
        description="A name from `tempora list datasets`, or module:function; fashion ships with Tempora.",
    )
    root: Path | None = Field(None, description="Where the dataset lies on disk; the bundled one needs none.")
    severity: int = Field(5, ge=1, le=5, description="Severity of corruptions, 1 to 5.")
    shifts: list[str] = Field(
        ["all"], description="Corruptions or groups (noise, blur, weather, digital), or all."
    )
    options: dict[str, Any] = Field(
        {},
        description="What this dataset alone can be told: subset, variant, version, classes, precropped, as_stored.",
    )
    workers: int | None = Field(
        None, ge=0, description="Decoding processes; default one per core, 0 for none."
    )
    cache_dir: Path | None = Field(None, description="Keep decoded shifts here for later runs.")
    pictures: bool | None = Field(
        None,
        description="Keep four small pictures of each shift for the report; default: if the dataset's licence lets "
        "them be passed on. Never of folders or of your own data unless you say so.",
    )

    @field_validator("shifts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class SourceConfig(_Strict):
    """Clean images for methods that ask for some (EATA, FOA): training images, never those of the stream."""

    dataset: str = Field(description="A name from `tempora list datasets`, or module:function.")
    root: Path | None = Field(None, description="Where the dataset lies on disk.")
    shift: str | None = Field(None, description="Which of its shifts, where it has several.")
    samples: int = Field(2000, ge=1, description="How many images are drawn.")
    options: dict[str, Any] = Field({}, description="What this dataset alone can be told.")


class MethodConfig(BaseModel):
    """A method with settings of its own: `name`, an optional `label`, `times_as` (the method whose recorded times
    stand for its own), and whatever the method can be set to."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: str = ""
    times_as: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class RunConfig(_Strict):
    """One run: a network, methods, shifts, scenarios, and how they are timed."""

    suite: str | None = Field(
        None, description="The suite that this configuration belongs to; what departs from it is named."
    )
    model: str = Field(
        "fashion_resnet",
        description="fashion_resnet, fashion_vit, fashion_vit_token, resnet50, vit_b_16, a timm name, or "
        "module:function of your own.",
    )
    checkpoint: Path | None = Field(
        None, description="Weights (.safetensors, or .pt) instead of the model's own."
    )
    pretrained: bool = Field(
        True, description="Use the trained weights; false leaves them random, for timing only."
    )
    data: DataConfig = Field(DataConfig(), description="Which images.")
    source: SourceConfig | None = Field(
        None,
        description="Clean training images for EATA and FOA: a dataset's name, or {dataset: ..., root: ..., "
        "samples: 2000}; on fashion, the bundled fashion_train unless given.",
    )
    methods: list[str | MethodConfig] = Field(
        ["all"],
        description="Names, or name/label/settings; all: those that fit the model, cotta, foa and memo only by name.",
    )
    recipes: Path | None = Field(
        None, description="A file of `tempora tune`: its settings, where `methods` gives none."
    )
    grid: str = Field(
        "relative",
        description="Scenarios to evaluate besides Offline, which always is: a name from "
        "`tempora list scenarios`, or module:function, which returns them.",
    )
    scenarios: list[Any] = Field(
        [],
        description="More scenarios: {protocol: discrete, utilisation: 1}, module:Class, or with settings "
        "{scenario: module:Class, ...}.",
    )
    queue: int = Field(
        1, ge=0, le=MOST_WAITING, description="Batches that may wait, in the grid's discrete scenarios."
    )
    rule: Literal["strict", "overshoot"] = Field(
        "strict", description="Budget rule of the grid's amortised ones."
    )
    runtimes: list[str] = Field(
        ["eager"],
        min_length=1,
        description="How PyTorch runs each method: eager, tf32, compile, channels_last+amp, ...",
    )
    predict_with: str | None = Field(
        None,
        description="steady and recorded clocks: predict with tf32, amp or channels_last where that agrees with "
        "what is timed.",
    )
    seeds: list[int] = Field([2025], min_length=1, description="Orders of the stream; each is run.")
    stream: dict[str, Any] = Field(
        {"kind": "single"},
        description="Order of shifts and classes: {kind: continual, batches: 10, reset: shift, classes: shuffled}.",
    )
    batch_size: int = Field(64, ge=1, description="Samples per batch.")
    batches: int | None = Field(None, ge=1, description="Use only the first so many batches of every shift.")
    preset: Literal["paper"] | None = Field(None, description="paper: settings behind the published tables.")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:N or mps.")
    threads: int | None = Field(
        None, ge=1, description="CPU threads of torch; default one under steady, else as torch chooses."
    )
    clock: str = Field(
        "steady",
        description="steady (profile this machine first), measured, a profile's file, or published:rn50_inc.",
    )
    profile_s: float = Field(
        180.0,
        gt=0,
        allow_inf_nan=False,
        description="steady: seconds that the profile may take; it ends when it is good.",
    )
    provision_x: float | Literal["tail"] = Field(
        1.03, description="steady: lambda over Standard's steady time; tail: its clean 99th percentile."
    )
    baseline_ms: float | None = Field(None, gt=0, description="lambda; default measured, or the profile's.")
    calibration_batches: int = Field(
        700, ge=2, description="measured: batches of standard inference that lambda comes from."
    )
    provision: float = Field(
        6.0, ge=0, allow_inf_nan=False, description="measured: lambda = mean + provision * sigma."
    )
    warmup_batches: int = Field(5, ge=0, description="measured: batches before each pass that do not count.")
    method_timeout_s: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds that one call into a method may take; default any.",
    )
    share: bool = Field(True, description="Share passes between scenarios where the result is the same.")
    deterministic: bool = Field(
        False, description="Deterministic algorithms on CUDA: slower, repeatable to the bit."
    )

    @field_validator("grid")
    @classmethod
    def _known_grid(cls, grid: str) -> str:
        if grid not in GRIDS and not is_own(grid):
            raise ValueError(suggestion(grid, GRIDS))
        return grid

    @field_validator("scenarios")
    @classmethod
    def _named_or_described(cls, scenarios: list[Any]) -> list[Any]:
        for entry in scenarios:
            if not isinstance(entry, (str, dict)):
                raise ValueError("must be scenarios: {protocol: discrete, utilisation: 1}, or module:Class")
        return scenarios

    @field_validator("source", mode="before")
    @classmethod
    def _named_dataset(cls, value: Any) -> Any:
        return {"dataset": value} if isinstance(value, str) else value

    @field_validator("stream", mode="before")
    @classmethod
    def _settings_of_a_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or not all(0 <= seed < 2**63 for seed in seeds):
            raise ValueError("must be whole numbers from 0 to 2^63 - 1, each once")
        return seeds

    @field_validator("provision_x")
    @classmethod
    def _a_factor(cls, factor: float | str) -> float | str:
        if not isinstance(factor, str) and not 1 <= factor < float("inf"):
            raise ValueError("must be a factor of at least 1, or tail")
        return factor


def template() -> str:
    """A commented configuration with every key at its default."""
    text = ["# A Tempora run: tempora run THIS_FILE --out DIR", ""]
    for name, field in RunConfig.model_fields.items():
        if name == "data":
            text.append("data:")
            for inner, described in DataConfig.model_fields.items():
                text += [f"  # {described.description}", f"  {inner}: {_yaml(described.default)}"]
            continue
        text += [f"# {field.description}", f"{name}: {_yaml(field.default)}"]
    return "\n".join(text) + "\n"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).replace("\n...", "").strip()
