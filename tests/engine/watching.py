"""An observer that remembers what it was told."""

from __future__ import annotations

from tempora_tta.engine import Observer


class Watches(Observer):
    """Asks for a stop after a number of batches, as Ctrl-C does, and may do something when a task is done."""

    def __init__(self, batches: int = 10**9, on_finish=lambda: None) -> None:
        self.left, self.on_finish = batches, on_finish
        self.passes, self.notes, self.finished_tasks = [], [], []

    def pass_started(self, kind, batches):
        self.passes.append(kind)

    def batch_done(self, trace, index):
        self.left -= 1
        self.stop_requested |= self.left <= 0

    def note(self, text):
        self.notes.append(text)

    def task_finished(self, method, shift, seed):
        self.finished_tasks.append((method, shift))
        self.on_finish()
