"""The profile behind a job's clock, kept as `profile.json` in the run folder: given, or this machine's steady one,
which is recorded once and added to when needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tempora_tta.engine.job import STANDARD, Job
from tempora_tta.engine.observer import Observer
from tempora_tta.errors import TemporaError
from tempora_tta.methods.apart import AT_ONCE
from tempora_tta.store import ADAPTED, StoredPass
from tempora_tta.timing import (
    Baseline,
    Profile,
    ProfileClock,
    device_kind,
    load_profile,
)
from tempora_tta.timing.record import MissingWork
from tempora_tta.timing.work import Kind

if TYPE_CHECKING:
    from tempora_tta.engine.places import Here

PROFILE_FILE = "profile.json"


class OwnProfile:
    """The profile behind a job's steady clock. `ready()` before the first pass, `learn()` when some met new kinds."""

    def __init__(
        self,
        job: Job,
        clock: ProfileClock,
        folder: Path,
        observer: Observer,
        place: Here,
    ) -> None:
        """`place`: where the passes are made."""
        self._job, self._clock, self._observer, self._place = job, clock, observer, place
        self._path = folder / PROFILE_FILE

    def ready(self) -> Baseline:
        """lambda, with a profile of all methods behind the clock: the folder's own as far as it goes."""
        profile = self._kept()
        missing = needs(self._job, profile)
        if profile is None:
            self._keep(self._place.profile(labels=missing))
        elif missing:
            self._say_changed(profile, missing)
            self._keep(profile.with_methods(self._place.profile(labels=missing)))
        else:
            self._clock.profile = profile
        return self._clock.profile.baseline(self._clock.provision_x)

    def extend(self, passes: Iterable[StoredPass]) -> bool:
        """Give the work that passes met without a time one of its own; say whether any got one."""
        before = len(self._clock.profile.entries)
        for stored in passes:
            for kind, index in stored.facts["missing"].items():
                missing = _missing_work(self._job, stored, index)
                if missing is not None and Kind.parse(kind) not in self._clock.profile.by_kind:
                    self._keep(self._place.profile(missing=missing, profile=self._clock.profile))
        return len(self._clock.profile.entries) > before

    def _say_changed(self, profile: Profile, missing: list[str]) -> None:
        known = profile.methods | set(profile.facts)
        if changed := [label for label in missing if label in known]:
            self._observer.note(
                f"{', '.join(changed)}: edited or set otherwise since profiled, so profiled again"
            )

    def _keep(self, profile: Profile) -> None:
        profile = profile.stamped(self._job.made_by_label)
        profile.save(self._path)
        self._clock.profile = profile

    def _kept(self) -> Profile | None:
        """The folder's profile, if it fits."""
        if not self._path.exists():
            return None
        try:
            profile = load_profile(self._path)
        except TemporaError as error:
            self._observer.note(f"{error}; it is recorded again")
            return None
        return profile if fits(profile, self._job, self._place.profiled_device) else None


def _missing_work(job: Job, stored: StoredPass, index: int) -> MissingWork | None:
    """The way to a batch of a pass; None where the times are another method's, which are not its own to measure."""
    label, shift, seed = (stored.identity[name] for name in ("method", "shift", "seed"))
    source = next(one for one in job.streams if (one.shift, one.seed) == (shift, seed))
    if any(spec.times_as for spec in job.methods if spec.label == label):
        return None
    phase = stored.trace(predictions=False).phase
    served = (*(other for other in range(index) if phase[other] == ADAPTED), index)
    resets = [
        then for last, then in zip((-1, *served), served, strict=False) if source.resets_between(last, then)
    ]
    return MissingWork(label, shift, seed, served, tuple(resets))


def keep_given(job: Job, folder: Path) -> None:
    """Keep a profile that the clock was given where its own would be, so that the run travels with its times."""
    clock = job.clock
    if isinstance(clock, ProfileClock) and not clock.own:
        clock.profile.save(folder / PROFILE_FILE)


def profiled_device(job: Job) -> str:
    """The kind of device that a profile recorded here is of."""
    facts, threads = dict(job.machine), job.profile_threads
    return device_kind(facts if threads is None else {**facts, "threads": threads})


def fits(profile: Profile, job: Job, device: str | None) -> bool:
    """Return whether a profile is of this network, batch size and device (None: any)."""
    found = (profile.model, profile.weights, profile.batch_size, profile.device)
    wanted = (job.model.name, job.weights, job.streams[0].batch_size, device or profile.device)
    # Standard is other if the network's own code is, and with it everything else.
    return found == wanted and STANDARD not in profile.changed(job.made_by_label)


def _without_groups(job: Job, profile: Profile) -> set[str]:
    """Methods with times, but none of answering frames at once, which the job asks for."""
    wanted = {f"{AT_ONCE} {size}" for size in job.at_once}
    answering = {(entry.method, entry.mode) for entry in profile.entries}
    return {
        name for name in profile.methods if not wanted <= {mode for one, mode in answering if one == name}
    }


def needs(job: Job, profile: Profile | None) -> list[str]:
    """The methods of a job that have yet to be profiled."""
    known: frozenset[str] = frozenset()
    if profile is not None:
        known = profile.methods | set(profile.facts)
        known -= profile.changed(job.made_by_label) | _without_groups(job, profile)
    own = [spec.label for spec in job.methods if not spec.times_as]
    for spec in job.methods:
        if spec.times_as and spec.times_as not in known and spec.times_as not in own:
            raise TemporaError(
                f"times_as={spec.times_as!r} of {spec.label!r}: the profile of this machine has the methods of the "
                f"run; add {spec.times_as!r} to them, or use a clock that has its times"
            )
    return [label for label in own if label not in known]
