"""RoTTA's memory: a few samples, balanced over predicted classes, certain and recent ones first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Entry:
    """A sample in the memory: where its image is, its class, its uncertainty and when it came."""

    place: int
    label: int
    uncertainty: float
    born: int


@dataclass
class Memory:
    """At most `capacity` entries, kept by class in the order in which they came."""

    capacity: int
    num_classes: int
    seen: int = 0
    """Samples offered; an entry's age is what it was when it came subtracted from this."""
    by_class: dict[int, list[Entry]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(self.capacity))

    def __len__(self) -> int:
        return self.capacity - len(self.free)

    def offer(self, label: int, uncertainty: float) -> int | None:
        """Take a sample in, in place of another if need be; the place for its image, or None if it is dropped.

        One whose uncertainty is not a number has nothing to teach and is never taken in.
        """
        place = self._room_for(label, uncertainty) if math.isfinite(uncertainty) else None
        if place is not None:
            self.by_class.setdefault(label, []).append(Entry(place, label, uncertainty, self.seen))
        self.seen += 1
        return place

    def entries(self) -> list[Entry]:
        """All of them, by class."""
        return [entry for label in sorted(self.by_class) for entry in self.by_class[label]]

    def age(self, entry: Entry) -> int:
        """How many samples were offered since it came, itself included."""
        return self.seen - entry.born

    def freshness(self, entry: Entry) -> float:
        """exp(-age/N) / (1 + exp(-age/N)): what it weighs in the loss."""
        decay = math.exp(-self.age(entry) / self.capacity)
        return decay / (1 + decay)

    def score(self, age: int, uncertainty: float) -> float:
        """How dispensable a sample is: old and uncertain ones are."""
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty / math.log(self.num_classes)

    def _room_for(self, label: int, uncertainty: float) -> int | None:
        own = self.by_class.get(label, [])
        if len(own) >= self.capacity / self.num_classes:
            rivals = own
        elif self.free:
            return self.free.pop(0)
        else:
            most = max(map(len, self.by_class.values()))
            rivals = [entry for entry in self.entries() if len(self.by_class[entry.label]) == most]
        worst = max(reversed(rivals), key=self._score_of)  # of equals the last
        if not self._score_of(worst) > self.score(0, uncertainty):
            return None
        self.by_class[worst.label].remove(worst)
        return worst.place

    def _score_of(self, entry: Entry) -> float:
        return self.score(self.age(entry), entry.uncertainty)
