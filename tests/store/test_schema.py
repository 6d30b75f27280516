"""The stored format: what is written can be read back, and every field has its sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made_runs import GRID, write_run
from tempora_tta import TemporaError
from tempora_tta.errors import TemporaWarning
from tempora_tta.store import ADAPTED, FROZEN, TRACE, UTILITIES, RunFolder, Trace, read_pass


def a_trace() -> Trace:
    """Five batches of four: adapted, skipped, undone and frozen, frozen untimed."""
    trace = Trace.empty(5, 4)
    for batch, phase in ((0, ADAPTED), (2, ADAPTED), (3, FROZEN), (4, FROZEN)):
        trace.phase[batch] = phase
        trace.correct[batch] = batch
        trace.predicted[batch] = np.arange(4) + batch
        trace.action[batch] = "step" if phase == ADAPTED else "none"
    trace.predict_ms[[0, 2]] = 41.5, 40.25
    trace.adapt_ms[[0, 2]] = 56.0, 57.0
    trace.attempt_predict_ms[3], trace.attempt_adapt_ms[3] = 41.0, 58.0
    return trace


def test_a_trace_survives_its_file_with_predictions_or_without(tmp_path):
    trace = a_trace()
    identity = {"shift": "fog/../x", "method": "<b>", "kind": "live", "seed": 1}
    with RunFolder.for_writing(tmp_path) as folder:
        assert list(folder.utilities().columns) == list(UTILITIES)
        stored = folder.write_pass(identity, trace, {"note": "why"})
    assert stored.path.parent == tmp_path / "traces", "a hostile name stays inside the folder"
    again = read_pass(stored.path)
    assert (again.identity, again.facts, again.key) == (identity, {"note": "why"}, stored.key)
    for name, values in vars(trace).items():
        np.testing.assert_array_equal(getattr(again.trace(), name), values, err_msg=name)
    assert list(trace.to_frame().columns) == list(TRACE)
    slim = RunFolder(tmp_path).trace(stored.key, predictions=False)
    assert slim.predicted.shape == (5, 0)
    for name in ("phase", "correct", "total", "predict_ms", "adapt_ms", "action"):
        np.testing.assert_array_equal(getattr(slim, name), getattr(trace, name))
    table = pq.read_table(stored.path)
    slower = table.set_column(table.column_names.index("predict_ms"), "predict_ms", pa.array([9.0] * 5))
    pq.write_table(slower.replace_schema_metadata(table.schema.metadata), stored.path)
    with pytest.warns(TemporaWarning, match="changed"):
        RunFolder(tmp_path).trace(stored.key, predictions=False)
    stored.path.write_bytes(b"PAR1 not really")
    with pytest.raises(TemporaError, match=stored.path.name):
        read_pass(stored.path)


def test_the_table_is_read_again_when_it_is_another(tmp_path):
    """A folder keeps what it has read; neither a caller's changes nor another writer's table get lost or mixed up."""
    results = write_run(tmp_path, scenarios=GRID[:2], batches=4)
    folder = RunFolder(tmp_path)
    first = folder.utilities()
    pd.testing.assert_frame_equal(first, results.utilities)
    first["method"] = "changed by a caller"
    pd.testing.assert_frame_equal(folder.utilities(), results.utilities)
    with RunFolder.for_writing(tmp_path) as other:
        other.write_utilities(results.utilities.iloc[:1])
    assert len(folder.utilities()) == 1
