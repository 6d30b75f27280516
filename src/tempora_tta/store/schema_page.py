"""The page of the docs about what is in a run folder, from the tables and the record that define it."""

from __future__ import annotations

from tempora_tta.store.record import RunRecord
from tempora_tta.store.schema import CERTAINTY, SCHEMA_VERSION, SEGMENTS, TRACE, UTILITIES


def as_markdown() -> str:
    """The files of a run folder as a page: docs/schema.md is this text, and a test keeps it so."""
    lines = [
        "# What is in a run folder",
        "",
        "Made by `python docs/generate.py`. Files carry the schema version, now "
        f"{SCHEMA_VERSION}; a file of another version is refused. They also carry checksums: a file that was "
        "changed is read with a warning, impossible numbers are refused, and `tempora run` makes both again. A table "
        "of utilities names the rows of the passes that it was scored from, and a finished `run.json` names its "
        "tables and its profile: files of two runs in one folder are read with a warning, too.",
        "",
        "- `run.json`: what was run (configuration, methods, shifts, seeds, scenarios), the machine, lambda "
        "(`baseline`), the verdict on the measurement.",
        "- `profile.json`: the latencies behind the clock, where times are looked up: recorded here, or given.",
        "- `traces/*.parquet`: one file per pass. Its metadata holds what decided the pass (`identity`) and what was "
        "noticed while it was made (`facts`).",
        "- `utilities.parquet`: one row per cell.",
        "- `segments.parquet`: one row per cell and segment of its stream, where that is of many shifts.",
        "- `certainty.parquet`: one row per method, shift and scenario: how sure the winners of a finished run are.",
        "- `pictures.json`: four small pictures of every shift (JPEG, base64), where the dataset may be passed on.",
        "- `report.html`: written by `tempora report`.",
    ]
    lines += ["", "## run.json: one object", "", "| field | type | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {RunRecord.__annotations__[name].replace('|', 'or')} | {field.description} |"
        for name, field in RunRecord.model_fields.items()
    ]
    for title, fields in (
        ("Traces: one row per batch", TRACE),
        ("Utilities: one row per cell", UTILITIES),
        ("Segments: one row per cell and segment", SEGMENTS),
        ("Certainty: one row per method, shift and scenario", CERTAINTY),
    ):
        lines += ["", f"## {title}", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | {kind} | {meaning} |" for name, (kind, meaning) in fields.items()]
    return "\n".join(lines) + "\n"
