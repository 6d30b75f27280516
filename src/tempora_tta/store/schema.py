"""The files of a run folder, field by field.

    run.json            what was run, on which machine, with which lambda, and the verdict on the measurement
    traces/*.parquet    one file per pass, one row per batch (`TRACE`)
    utilities.parquet   one row per cell: method, shift, seed and scenario (`UTILITIES`)
    segments.parquet    one row per cell and segment, of streams of many shifts (`SEGMENTS`)
    certainty.parquet   one row per method, shift and scenario: how sure each winner is (`CERTAINTY`)
    pictures.json       small pictures of the shifts, where the data may be passed on (`pictures`)

run.json and the tables carry `SCHEMA_VERSION`; one of another version is refused. A trace is named by a hash of its
content, and run.json of a finished run lists the hashes of the other files: a reader that finds one changed warns.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 4

Fields = dict[str, tuple[pa.DataType, str]]
"""Columns of a table: type and meaning."""

TRACE: Fields = {
    "index": (pa.int32(), "Position of the batch in the stream, from 0."),
    "served": (
        pa.bool_(),
        "Whether the batch was predicted in this pass; else predictions are empty and counts of right ones 0.",
    ),
    "phase": (
        pa.string(),
        "adapt, frozen, or fallback: lost, and answered by the fallback.",
    ),
    "correct": (pa.int32(), "Samples predicted right."),
    "total": (pa.int32(), "Samples in the batch."),
    "right": (
        pa.list_(pa.bool_()),
        "Whether each sample was predicted right; empty where only their number is known.",
    ),
    "predicted": (
        pa.list_(pa.int32()),
        "The predicted class of every sample.",
    ),
    "arrived_ms": (
        pa.float64(),
        "When the batch arrived, lost ones too; empty where not timed.",
    ),
    "start_ms": (pa.float64(), "When its service started."),
    "emission_ms": (pa.float64(), "When its prediction was emitted."),
    "finish_ms": (pa.float64(), "When the pipeline was free again."),
    "predict_ms": (pa.float64(), "Intrinsic time e: from picking the batch up to emitting its prediction."),
    "adapt_ms": (pa.float64(), "Extrinsic time l: from the emission until the pipeline is free again."),
    "action": (
        pa.string(),
        "What adapt() did: step, nothing_kept, non_finite, recovered, none, or its own word.",
    ),
    "stepped": (
        pa.bool_(),
        "Whether the method learned from the batch, and did not skip it.",
    ),
    "mode": (pa.string(), "The mode of the method's work, if it names any."),
    "amount": (
        pa.float64(),
        "What its time follows, if anything: samples kept, iterations, views.",
    ),
    "confidence": (
        pa.float64(),
        "Mean probability that the method gave the classes it predicted.",
    ),
    "calibration": (
        pa.list_(pa.float64()),
        "By bin of confidence (15 of equal width): the sum of confidences less the number of samples right.",
    ),
    "residual": (
        pa.float64(),
        "The device's own factor on predict_ms and adapt_ms where these are steady times; it counts under "
        "deadlines and queue 0.",
    ),
    "attempt_predict_ms": (
        pa.float64(),
        "predict_ms of an attempt that overran a strict budget and was undone.",
    ),
    "attempt_adapt_ms": (pa.float64(), "Its adapt_ms. Neither enters a timeline."),
}

UTILITIES: Fields = {
    "method": (pa.string(), "Name of the method, or its label where a run has several settings of one."),
    "model": (pa.string(), "Name of the network."),
    "shift": (pa.string(), "Name of the shift; of a stream of many shifts, its kind."),
    "seed": (pa.int64(), "Seed of the stream's order and of the method's own randomness."),
    "stream": (
        pa.string(),
        "Kind of stream: single, continual, gradual, recurring, mixed, or module:function.",
    ),
    "protocol": (
        pa.string(),
        "offline, discrete, continuous, amortised; deployment for several knobs at once.",
    ),
    "parameter": (pa.string(), "interval_ms, threshold_ms or budget_ms; empty for offline and deployment."),
    "value": (pa.float64(), "The parameter in milliseconds."),
    "label": (pa.string(), "The scenario as people read it."),
    "queue": (pa.int64(), "Batches that may wait."),
    "rule": (pa.string(), "Budget rule: strict or overshoot; empty without a budget."),
    "status": (pa.string(), "ok, not applicable: ..., or failed: ... with the reason."),
    "origin": (
        pa.string(),
        "live: its own pass; derived: from a shared pass; replayed: a history-free method's times on this "
        "scenario's clock.",
    ),
    "utility": (pa.float64(), "U, a fraction."),
    "utility_lo": (
        pa.float64(),
        "Lowest utility over other times.",
    ),
    "utility_hi": (pa.float64(), "Highest utility likewise."),
    "sample_lo": (
        pa.float64(),
        "Lower end of the utility's 95 % interval over other batches.",
    ),
    "sample_hi": (pa.float64(), "Upper end likewise."),
    "rank": (
        pa.int64(),
        "Rank by utility among the methods of the cell; ties share the better rank. Empty for an oracle.",
    ),
    "oracle": (
        pa.bool_(),
        "Whether labels chose its settings: a ceiling, neither ranked nor recommended.",
    ),
    "baseline_ms": (pa.float64(), "lambda."),
    "availability": (pa.float64(), "Served batches / all batches."),
    "adapted_fraction": (pa.float64(), "Adapted batches / served batches."),
    "stepped_fraction": (
        pa.float64(),
        "Batches that the method learned from, without those it skipped, / served batches.",
    ),
    "ece": (
        pa.float64(),
        "Expected calibration error over served batches, 15 bins.",
    ),
    "adapt_accuracy": (pa.float64(), "Mean accuracy of adapted batches."),
    "frozen_accuracy": (pa.float64(), "Mean accuracy of frozen batches."),
    "responsiveness": (pa.float64(), "Mean decay factor kappa."),
    "covariance": (pa.float64(), "Population covariance of accuracy and kappa over served batches."),
    "accuracy": (pa.float64(), "Mean accuracy over served batches."),
    "served_accuracy": (pa.float64(), "The same, under the name the discrete protocol gives it."),
    "cutoff": (pa.float64(), "m: how many batches adapted."),
    "spent_ms": (pa.float64(), "Overhead charged to the budget."),
    "waitspan_ms": (pa.float64(), "Idle time forced by dropped arrivals."),
    "response_ms": (pa.float64(), "Mean time from arrival to emission over served, timed batches."),
    "response_sd_ms": (pa.float64(), "Its standard deviation (population)."),
    "response_p50_ms": (
        pa.float64(),
        "Half of all batches were answered within this time; one without an answer counts as infinite.",
    ),
    "response_p90_ms": (pa.float64(), "90 % were; empty below 29 batches, or where some went untimed."),
    "response_p95_ms": (pa.float64(), "95 % were; empty below 59 batches likewise."),
    "response_p99_ms": (pa.float64(), "99 % were; empty below 299 batches likewise."),
    "fallback_fraction": (pa.float64(), "Batches that the fallback answered / all batches."),
    "fallback_accuracy": (pa.float64(), "Mean accuracy of those batches."),
    "energy_j": (
        pa.float64(),
        "Joules of all served batches: busy time x the profile's mean power; empty where no driver counted it.",
    ),
    "overhead_j": (
        pa.float64(),
        "Joules of adapting batches above standard inference in lambda.",
    ),
    "memory_mb": (
        pa.float64(),
        "The most megabytes (10^6 bytes) that the method holds on the device, its network included.",
    ),
    "served_batches": (pa.int64(), "How many batches were served."),
    "batches": (pa.int64(), "N: how many batches the stream has."),
    "verdict": (
        pa.string(),
        "On the cell's winner: holds, equal (with another, within half a point) or undecided.",
    ),
    "timing": (pa.string(), "VALID, WARN or INVALID: how far the timing behind this cell can be trusted."),
    "scenario": (pa.int64(), "Position of the scenario in run.json."),
    "adapting_pass": (pa.string(), "Key of the pass that holds the adapting batches."),
    "frozen_pass": (pa.string(), "Key of the pass that holds the frozen batches, where they are another's."),
    "fallback_pass": (
        pa.string(),
        "Key of the pass that holds the fallback's batches, where they are another's.",
    ),
}

STREAM_COLUMNS = ["model", "shift", "seed"]
"""Which stream, and the network on it."""
SCENARIO_COLUMNS = ["protocol", "parameter", "value", "label", "queue", "rule"]
"""Which deployment."""
SCENARIO_NAME = ["protocol", "label", "queue", "rule"]
"""What a scenario is called on every stream: the value of one that is relative to lambda or N differs."""
KEY_COLUMNS = ["method", *STREAM_COLUMNS, *SCENARIO_COLUMNS]
"""What names a cell."""
PASS_COLUMNS = ["adapting_pass", "frozen_pass", "fallback_pass"]
"""Where a cell's batches are."""
ABOUT_WINNERS = ("sample_lo", "sample_hi", "verdict")
"""What is worked out when all methods of a cell are there (`analysis.doubt`)."""
CELL_COLUMNS = [*STREAM_COLUMNS, "scenario"]
"""What methods are ranked within."""

COLLAPSE_BATCHES = 20
"""This number of batches on end below standard inference is no accident."""

SEGMENTS: Fields = {
    **{
        name: UTILITIES[name] for name in ("method", *STREAM_COLUMNS, "stream", *SCENARIO_COLUMNS, "scenario")
    },
    "segment": (pa.string(), "The segment: its shift, with severity and visit where there are several."),
    "position": (pa.int64(), "Which segment of the stream it is, from 0."),
    "segment_shift": (pa.string(), "The shift that its batches are of."),
    "severity": (pa.int64(), "Of that shift; empty where the stream does not go through severities."),
    "visit": (pa.int64(), "How often the stream has come to it, this time included."),
    "first_batch": (pa.int64(), "Position of its first batch in the stream."),
    "batches": (pa.int64(), "How many batches it has, served or not."),
    **{name: UTILITIES[name] for name in ("served_batches", "utility", "availability", "adapted_fraction")},
    **{name: UTILITIES[name] for name in ("stepped_fraction", "adapt_accuracy", "frozen_accuracy")},
    "responsiveness": UTILITIES["responsiveness"],
    **{name: UTILITIES[name] for name in ("covariance", "accuracy", "served_accuracy")},
    **{name: UTILITIES[name] for name in ("fallback_fraction", "fallback_accuracy", "response_p50_ms")},
    **{name: UTILITIES[name] for name in ("response_p90_ms", "response_p95_ms", "response_p99_ms")},
    "standard_utility": (
        pa.float64(),
        "Utility of standard inference in the same segment and scenario.",
    ),
    "collapsed_batches": (
        pa.int64(),
        f"Batches of the segment among {COLLAPSE_BATCHES} or more on end that were worth less than with standard "
        "inference.",
    ),
    "over_first_visit": (
        pa.float64(),
        "Utility minus that of the first visit to the same shift and severity.",
    ),
}
"""Terms are those of the segment's own batches: utilities weighted by `batches` give the stream's."""

CERTAINTY: Fields = {
    **{name: UTILITIES[name] for name in ("method", "model")},
    "shift": (pa.string(), "The shift; `all` for those that count, taken together."),
    **{name: UTILITIES[name] for name in ("scenario", "sample_lo", "sample_hi", "verdict")},
    "why": (
        pa.string(),
        "Reason of an undecided verdict: timing or sampling.",
    ),
    "p_best": (
        pa.float64(),
        "Probability that no other method is better, over other batches and other times.",
    ),
    "rank_lo": (pa.float64(), "The method's best rank in 95 % of the draws of other batches and times."),
    "rank_hi": (pa.float64(), "The worst rank likewise."),
    "equal_with": (pa.string(), "Methods that are surely within half a point of the winner, with commas."),
    "rivals": (pa.string(), "Methods that may be better than the winner, with commas."),
}
"""Seeds are taken together."""


def arrow_schema(fields: Fields) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, (kind, _) in fields.items()])
