"""run.json: what was run, as one record that says every field, writes itself and refuses what no run leaves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from tempora_tta.store.files import changed, check_version, damaged, reading, warn
from tempora_tta.store.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from tempora_tta.store.folder import StoredPass

MOST_BYTES = 64 << 20
"""Real ones have a few hundred kilobytes."""

SETTINGS_TOO = ("preset", "runtime", "source_images")
"""Parts of a pass's identity that decide how a method works, as its settings do."""

Facts = dict[str, Any]


class _Open(BaseModel):
    """Nothing is converted, and fields that are not listed may be there too."""

    model_config = ConfigDict(strict=True, extra="allow")


class BaselineRecord(_Open):
    """lambda, and the sample of standard inference that it comes from."""

    baseline_ms: float = Field(gt=0, allow_inf_nan=False)


class VerdictRecord(_Open):
    """A judgement on timing."""

    status: Literal["VALID", "WARN", "INVALID"]
    text: str
    reasons: list[str] = []


class MachineRecord(_Open):
    """The machine of a run."""

    command: list[str] = []
    versions: Facts = {}


class ConfigRecord(_Open):
    """A configuration as `tempora run` takes it."""

    scenarios: list[str | Facts] = []
    suite: str | None = None


class PredictWithRecord(_Open):
    """Predictions that another runtime made, and how they agree with those of the timed one."""

    runtime: str
    least_agreement: float
    mean_agreement: float
    as_timed: list[str]


class NonFiniteRecord(_Open):
    """Count of a method's scores that were NaN or infinite."""

    batches: int
    passes: int
    shifts: list[str]


class RecipesRecord(_Open):
    """Origin of settings that were tuned."""

    select: str
    oracle: bool
    tuned_on: list[str]
    evaluated_too: list[str]


class ProfileRecord(_Open):
    """The profile that times were looked up in."""

    name: str
    id: str
    device: str


class RunRecord(BaseModel):
    """run.json."""

    model_config = ConfigDict(strict=True, extra="forbid")

    schema_version: int = Field(SCHEMA_VERSION, description="Version of the files of this folder.")
    model: str = Field(description="Name of the network.")
    methods: list[str] = Field(description="Labels of the methods, in the order given.")
    shifts: list[str] = Field(description="Names of the shifts; of a stream of many, its kind.")
    seeds: list[int] = Field(description="Seeds of the streams' orders.")
    batch_size: PositiveInt = Field(description="Samples of a batch.")
    batches: dict[str, PositiveInt] = Field(
        min_length=1, description="How many batches the stream of each shift has."
    )
    scenarios: list[Facts] = Field(description="The scenarios; `utilities.scenario` is a place in this list.")
    clock: str = Field(description="measured, steady:ID of profile.json or recorded:ID of a profile.")
    baseline: BaselineRecord = Field(description="lambda (`baseline_ms`) and where it comes from.")
    finished: bool = Field(description="Whether every cell was made.")
    notes: list[str] = Field([], description="What the run told its user to read.")
    machine: MachineRecord = Field(
        MachineRecord(),
        description="Processor, device, threads, versions, commit, and the command that was run.",
    )
    verdict: VerdictRecord | None = Field(
        None,
        description="On timing: `status` (VALID, WARN or INVALID), `reasons`, `text`; null until judged.",
    )
    config: ConfigRecord | None = Field(
        None, description="The configuration; null where Python gave objects without names."
    )
    recipes: RecipesRecord | None = Field(
        None,
        description="Settings that `tempora tune` chose: by what (`select`), whether that was an `oracle`, the "
        "shifts they were `tuned_on`, and those of them that are `evaluated_too`.",
    )
    weights: str | None = Field(None, description="A hash of the network's weights.")
    preprocessing: Facts | None = Field(
        None,
        description="Preparation of images: `mean`, `std`, `input_size`, `crop_pct`, `interpolation`, and which of "
        "them are `assumed`.",
    )
    method_settings: dict[str, Facts] = Field(
        {}, description="By label: the method's name and its settings, a recipe's included."
    )
    profile: ProfileRecord | None = Field(
        None,
        description="The profile of these times: `name`, `id`, `device`, where known `model` and `batch_size`; null: "
        "measured.",
    )
    cards: dict[str, dict[str, Facts]] = Field(
        {}, description="What scenarios and methods say of themselves: titles, labels, colours, axes."
    )
    dataset: str | None = Field(None, description="Name of the dataset.")
    severity: Any = Field(None, description="Severity of the shifts.")
    suite: str | None = Field(None, description="The suite whose results these are.")
    stream: Facts | None = Field(None, description="Kind and settings of the streams.")
    provision_ms: float | None = Field(
        None, description="What lambda provides beyond the mean, over a stream."
    )
    baselines: dict[str, BaselineRecord] = Field({}, description="lambda of each kind of device.")
    workers: dict[str, int] = Field({}, description="How many tasks each kind of device of a cluster made.")
    non_finite_scores: dict[str, NonFiniteRecord] = Field(
        {}, description="Methods with NaN or infinite scores."
    )
    predict_with: PredictWithRecord | None = Field(
        None, description="The runtime that predicted, and how it agrees with the timed one."
    )
    files: dict[str, str] = Field(
        {},
        description="The SHA-256 of every other file but traces, once finished.",
    )
    checksum: str = Field("", description="A hash of all other fields.")

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Read a run.json; warns where it is not what was written, and refuses what no run can leave."""
        with reading(path):
            found = json.loads(_text(path))
            if not isinstance(found, dict):
                raise damaged(path, f"it holds a {type(found).__name__} where an object is expected")
            check_version(found.get("schema_version"), path)
            try:
                record = cls.model_validate(found)
            except ValidationError as error:
                raise damaged(path, _first_of(error)) from error
            record.model_dump()  # which has a limit to how deep things are nested
            if record.checksum != _checksum(found):
                warn(changed(path))
        return record

    def text(self) -> str:
        """Return what stands in the file."""
        told = json.loads(json.dumps(self.model_dump(exclude={"checksum"}), default=str))
        return json.dumps({**told, "checksum": _checksum(told)}, indent=2) + "\n"


def made_with(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a method is, from what identifies a pass of it: name, the settings that it has, and the rest.

    >>> made_with({"name": "tent", "settings": {"lr": 0.1}, "recipe": {"lr": 0.01, "every": 2}, "preset": None})
    {'name': 'tent', 'settings': {'lr': 0.1, 'every': 2}}
    """
    settings = {**(identity.get("recipe") or {}), **(identity.get("settings") or {})}
    more = {name: identity[name] for name in SETTINGS_TOO if identity.get(name)}
    return {"name": str(identity.get("name")), "settings": settings, **more}


def other_work(profile: Mapping[str, Any] | None, model: str, batch_size: int) -> str | None:
    """Say that a profile's times are those of another network or batch size; None: not as far as it says.

    >>> print(other_work({"model": "resnet50", "batch_size": 64}, "fashion_resnet", 64))
    Times are those of resnet50, not of fashion_resnet: what is relative to λ is an answer about that.
    """
    told = profile or {}
    differ = [
        f"{said.format(told[name])}, not of {said.format(mine)}"
        for name, said, mine in (("model", "{}", model), ("batch_size", "batches of {}", batch_size))
        if name in told and told[name] != mine
    ]
    if not differ:
        return None
    return f"Times are those of {'; '.join(differ)}: what is relative to λ is an answer about that."


def non_finite_scores(passes: Iterable[StoredPass]) -> dict[str, Facts]:
    """Count by method: in how many batches of its passes it gave NaN or infinite scores, and on which shifts."""
    found: dict[str, Facts] = {}
    for stored in passes:
        if batches := stored.facts.get("non_finite_batches", 0):
            entry = found.setdefault(
                str(stored.identity["method"]), {"batches": 0, "passes": 0, "shifts": []}
            )
            entry["batches"] += batches
            entry["passes"] += 1
            entry["shifts"] = sorted({*entry["shifts"], str(stored.identity["shift"])})
    return dict(sorted(found.items()))


def _checksum(told: Facts) -> str:
    """Of all other fields, in any order."""
    rest = {name: value for name, value in told.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _first_of(error: ValidationError) -> str:
    """The first field that is not what it should be, and what it is."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"it lacks {place!r}" if first["type"] == "missing" else f"{place!r} is {first['input']!r:.60}"


def _text(path: Path) -> str:
    """All of it: run.json is small, and a large one is not ours and could fill the memory."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    return content.decode("utf-8")
