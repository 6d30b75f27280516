"""The fields of run.json. Every read and every write of one goes through here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast, get_args, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tempora_tta.store.integrity import checksum, damaged, opened
from tempora_tta.store.schema import SCHEMA_VERSION
from tempora_tta.store.verdicts import VERDICTS

MOST_MANIFEST_BYTES = 64 << 20
"""Real ones have a few hundred kilobytes."""


class BaselineRecord(TypedDict):
    """lambda, and the sample of standard inference that it comes from."""

    baseline_ms: float


class VerdictRecord(TypedDict):
    """A judgement on timing."""

    status: str
    text: str
    reasons: NotRequired[list[str]]


class MachineRecord(TypedDict):
    """Where it ran."""

    command: NotRequired[list[str]]
    versions: NotRequired[dict[str, Any]]


class ConfigRecord(TypedDict):
    """A configuration as `tempora run` takes it."""

    scenarios: NotRequired[list[str | dict[str, Any]]]
    suite: NotRequired[str | None]


class PredictWithRecord(TypedDict):
    """Predictions that another runtime made, and how they agree with those of the timed one."""

    runtime: str
    least_agreement: float
    mean_agreement: float
    as_timed: list[str]


class NonFiniteRecord(TypedDict):
    """How often a method's scores were NaN or infinite."""

    batches: int
    passes: int
    shifts: list[str]


class RecipesRecord(TypedDict):
    """The recipe file that settings come from."""

    select: str
    oracle: bool
    tuned_on: list[str]
    evaluated_too: list[str]


class ProfileRecord(TypedDict):
    """The profile that times were looked up in."""

    name: str
    id: str
    device: str
    model: NotRequired[str]
    batch_size: NotRequired[int]


class Manifest(TypedDict):
    """run.json. `Results.manifest` is one, and so is whatever is handed to `RunFolder.write_manifest`."""

    schema_version: NotRequired[Annotated[int, Field(description="Version of the files of this folder.")]]
    model: Annotated[str, Field(description="Name of the network.")]
    methods: Annotated[list[str], Field(description="Labels of the methods, in the order given.")]
    shifts: Annotated[list[str], Field(description="Names of the shifts; of a stream of many, its kind.")]
    seeds: Annotated[list[int], Field(description="Seeds of the streams' orders.")]
    batch_size: Annotated[int, Field(description="Samples of a batch.")]
    batches: Annotated[dict[str, int], Field(description="How many batches the stream of each shift has.")]
    scenarios: Annotated[
        list[dict[str, Any]],
        Field(description="The scenarios; `utilities.scenario` is a place in this list."),
    ]
    clock: Annotated[
        str,
        Field(description="measured, steady:ID of profile.json or recorded:ID of a profile."),
    ]
    baseline: Annotated[BaselineRecord, Field(description="lambda (`baseline_ms`) and where it comes from.")]
    finished: Annotated[bool, Field(description="Whether every cell was made.")]
    machine: NotRequired[
        Annotated[
            MachineRecord,
            Field(description="Processor, device, threads, versions, commit, and the command that was run."),
        ]
    ]
    verdict: NotRequired[
        Annotated[
            VerdictRecord | None,
            Field(
                description="On timing: `status` (VALID, WARN or INVALID), `reasons`, `text`; null until judged."
            ),
        ]
    ]
    config: NotRequired[
        Annotated[
            ConfigRecord | None,
            Field(description="The whole configuration; null where Python gave objects that have no names."),
        ]
    ]
    recipes: NotRequired[
        Annotated[
            RecipesRecord | None,
            Field(
                description="The recipe file (`tempora tune`): who chose (`select`), whether that was an `oracle`, "
                "the shifts it was `tuned_on`, those of them that are `evaluated_too`, and the `settings` by method."
            ),
        ]
    ]
    weights: NotRequired[Annotated[str, Field(description="A hash of the network's weights.")]]
    preprocessing: NotRequired[
        Annotated[
            dict[str, Any] | None,
            Field(
                description="How images are prepared for the network: `mean`, `std`, `input_size`, `crop_pct`, "
                "`interpolation`, and which of them are `assumed`; null: unknown, and not needed."
            ),
        ]
    ]
    method_settings: NotRequired[
        Annotated[
            dict[str, dict[str, Any]],
            Field(
                description="By label: the method's name and the settings that it had, a recipe's included."
            ),
        ]
    ]
    profile: NotRequired[
        Annotated[
            ProfileRecord | None,
            Field(
                description="Whose times these are: `name`, `id`, `device`, and where known `model` and `batch_size` "
                "of the profile; null: measured."
            ),
        ]
    ]
    cards: NotRequired[
        Annotated[
            dict[str, dict[str, dict[str, Any]]],
            Field(description="What scenarios and methods say of themselves: titles, labels, colours, axes."),
        ]
    ]
    dataset: NotRequired[Annotated[str | None, Field(description="Name of the dataset.")]]
    severity: NotRequired[Annotated[Any, Field(description="Severity of the shifts.")]]
    suite: NotRequired[Annotated[str | None, Field(description="The suite whose results these are.")]]
    stream: NotRequired[
        Annotated[dict[str, Any] | None, Field(description="Kind and settings of the streams.")]
    ]
    dropped_samples: NotRequired[
        Annotated[Any, Field(description="Samples at the end of each shift that fill no batch.")]
    ]
    shared: NotRequired[Annotated[bool, Field(description="Whether scenarios share passes.")]]
    baselines: NotRequired[Annotated[Any, Field(description="lambda of each kind of device.")]]
    provision_ms: NotRequired[
        Annotated[float | None, Field(description="What lambda provides beyond the mean, over a stream.")]
    ]
    standard_above_baseline: NotRequired[
        Annotated[Any, Field(description="Share of standard inference's batches above lambda.")]
    ]
    non_finite_scores: NotRequired[
        Annotated[dict[str, NonFiniteRecord], Field(description="Methods with NaN or infinite scores.")]
    ]
    predict_with: NotRequired[
        Annotated[
            PredictWithRecord | None,
            Field(description="The runtime that predicted, and how it agrees with the timed one."),
        ]
    ]
    merged_from: NotRequired[Annotated[Any, Field(description="The parts that were joined.")]]
    executor: NotRequired[Annotated[str, Field(description="ray, where a cluster made the passes.")]]
    workers: NotRequired[Annotated[Any, Field(description="The workers of a cluster.")]]
    processes: NotRequired[Annotated[int, Field(description="How many processes made the passes.")]]
    utilities_seal: NotRequired[
        Annotated[
            str | None, Field(description="Which table of utilities belongs to this run, once finished.")
        ]
    ]
    segments_seal: NotRequired[
        Annotated[str | None, Field(description="Which table of segments does; null where it has none.")]
    ]
    profile_seal: NotRequired[
        Annotated[str | None, Field(description="Which profile.json does; null where it has none.")]
    ]


for _record in (
    *(
        BaselineRecord,
        VerdictRecord,
        MachineRecord,
        ConfigRecord,
        PredictWithRecord,
        NonFiniteRecord,
        RecipesRecord,
        ProfileRecord,
    ),
    Manifest,
):
    # Nothing is converted, and what is not listed may be there too. Set here, because mypy would take it for a field.
    setattr(_record, "__pydantic_config__", ConfigDict(strict=True, extra="allow"))  # noqa: B010

_MODEL = TypeAdapter(Manifest)
_PARTS = {"machine": MachineRecord, "config": ConfigRecord}
"""Whose fields are named in errors."""


def read(path: Path) -> Manifest:
    """The content of a run.json; warns where it is not what was written, and refuses what no run can leave."""
    try:
        found = opened(json.loads(_text(path)), path)
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    except RecursionError as error:
        raise damaged(path, "it is nested too deeply") from error
    for problem in _problems(found):
        raise damaged(path, problem)
    return cast(Manifest, found)


def as_text(manifest: Mapping[str, Any]) -> str:
    """The text of a run.json, with the schema version and a checksum."""
    plain = json.loads(json.dumps({"schema_version": SCHEMA_VERSION, **manifest}, default=str))
    return json.dumps({**plain, "checksum": checksum(plain)}, indent=2) + "\n"


def fields() -> dict[str, tuple[str, str]]:
    """Type and meaning of every field of run.json."""
    hints = get_type_hints(Manifest, include_extras=True)
    return {name: _field(hint) for name, hint in hints.items()}


def _field(hint: Any) -> tuple[str, str]:
    while not hasattr(hint, "__metadata__"):  # NotRequired[...]
        (hint,) = get_args(hint)
    kind, told = get_args(hint)
    return _type_name(kind), told.description


def _type_name(kind: Any) -> str:
    """In the words of JSON.

    >>> _type_name(dict[str, int]), _type_name(list[str]), _type_name(str | None), _type_name(VerdictRecord)
    ('object of integer', 'array of string', 'string or null', 'object')
    """
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}
    if kind in plain:
        return plain[kind]
    inner = get_args(kind)
    origin = getattr(kind, "__origin__", None)
    if origin is list:
        return f"array of {_type_name(inner[0])}"
    if origin is dict:
        value = _type_name(inner[1])
        return "object" if value in ("any", "object") or value.startswith("object") else f"object of {value}"
    return " or ".join(map(_type_name, inner)) if inner else "object"


def _problems(found: Mapping[str, Any]) -> Iterator[str]:
    try:
        _MODEL.validate_python(found)
    except ValidationError as error:
        places = [one["loc"] for one in error.errors(include_url=False, include_context=False)]
        yield from (f"it lacks {place[0]!r}" for place in places if place[0] not in found)
        yield _odd(found, places[0])
        return
    numbers = [found["batch_size"], found["baseline"]["baseline_ms"], *found["batches"].values()]
    if not found["batches"] or not all(0 < number < math.inf for number in numbers):
        yield "batch_size, batches and baseline_ms are above 0"
    status = (found.get("verdict") or {}).get("status", VERDICTS[0])
    if status not in VERDICTS:
        yield f"its verdict is {status!r}; there are {', '.join(VERDICTS)}"


def _odd(found: Mapping[str, Any], place: tuple[int | str, ...]) -> str:
    """The field that is not what it should be, and what it is."""
    name, value = str(place[0]), found[str(place[0])]
    part = _PARTS.get(name)
    if part is not None and len(place) > 1 and place[1] in part.__annotations__ and isinstance(value, dict):
        name, value = f"{name}.{place[1]}", value[str(place[1])]
    return f"{name!r} is {value!r:.60}"


def _text(path: Path) -> str:
    """All of it: run.json is small, and a large one is not ours and could fill the memory."""
    with path.open("rb") as file:
        content = file.read(MOST_MANIFEST_BYTES + 1)
    if len(content) > MOST_MANIFEST_BYTES:
        raise ValueError(f"it has more than {MOST_MANIFEST_BYTES >> 20} MiB")
    return content.decode("utf-8")
