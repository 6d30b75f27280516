"""What predict() and adapt() must return, for the engine and the conformance kit alike."""

from __future__ import annotations

import torch

from tempora_tta.errors import TemporaError


def checked_scores(label: str, scores: object, samples: int, classes: int) -> torch.Tensor:
    """The scores of a batch, if they are: one row per sample, one column per class."""
    expected = (
        f"{label}: predict() returned {{}}; expected a tensor of scores, {samples} rows of {classes} classes"
    )
    if not isinstance(scores, torch.Tensor):
        raise TemporaError(expected.format(f"a {type(scores).__name__}"))
    if scores.shape != (samples, classes):
        raise TemporaError(expected.format(f"a tensor of shape {tuple(scores.shape)}"))
    if scores.is_complex() or scores.dtype == torch.bool or scores.device.type == "meta":
        raise TemporaError(expected.format(f"a tensor of {scores.dtype} on {scores.device}"))
    return scores.detach()


def checked_action(label: str, action: object) -> str:
    """What adapt() says it did, if it does."""
    if not isinstance(action, str):
        raise TemporaError(
            f"{label}: adapt() returned {action!r:.60}; expected a word for what was done, such as 'step' or 'none'"
        )
    return action
