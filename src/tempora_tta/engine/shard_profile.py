"""One steady profile for all shards of a run: the first records it, the others find it in a folder beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tempora_tta.engine.job import Job
from tempora_tta.engine.own_profile import PROFILE_FILE, fits, needs, profiled_device
from tempora_tta.engine.schedule import Shard
from tempora_tta.errors import TemporaError
from tempora_tta.measure import Profile, load_profile
from tempora_tta.store import RunFolder


def take_profile(job: Job, folder: Path, shard: Shard) -> None:
    """Put the profile of the run into a shard's folder, unless it is there, or this is the shard that records it."""
    if (folder / PROFILE_FILE).exists():
        _check(job, folder, shard)
        return
    elsewhere = ""
    for beside, profile in _beside(folder, shard):
        if fits(profile, job) and not needs(job, profile):
            profile.save(folder / PROFILE_FILE)
            return
        elsewhere = elsewhere or _unlike(job, shard, profile, beside)
    if elsewhere or shard.number > 1:
        first = Shard(1, shard.count)
        raise TemporaError(
            elsewhere
            or f"--shard {shard} with --clock steady: the shards of a run need one profile, which shard {first} "
            f"records. Start that one first, into a folder beside {folder}; or copy the profile.json of a shard that "
            f"has one into {folder}"
        )


def _check(job: Job, folder: Path, shard: Shard) -> None:
    """A profile that does not fit would be recorded anew, and the shards would no longer have one lambda."""
    profile = load_profile(folder / PROFILE_FILE)
    if not isinstance(profile, Profile) or not fits(profile, job):
        raise TemporaError(_unlike(job, shard, profile, folder))


def _unlike(job: Job, shard: Shard, profile: object, place: Path) -> str:
    of = f"{profile.model} on {profile.device}" if isinstance(profile, Profile) else "something else"
    return (
        f"--shard {shard} with --clock steady: {place / PROFILE_FILE} is of {of}, and this is {job.model.name} on "
        f"{profiled_device(job)}. For parts on unlike machines give every one of them the same file, also the first: "
        f"--clock {place / PROFILE_FILE}"
    )


def _beside(folder: Path, shard: Shard) -> Iterator[tuple[Path, Profile]]:
    """The profiles of the run's other shards in the folders next to this one."""
    here = folder.resolve()
    for path in sorted(here.parent.glob(f"*/{PROFILE_FILE}")):
        other = RunFolder(path.parent)
        if path.parent == here or not other.has_manifest():
            continue
        try:
            part, profile = other.manifest().get("shard"), load_profile(path)
        except TemporaError:  # a stranger's folder, or one that is damaged
            continue
        if part and Shard.parse(str(part)).count == shard.count and isinstance(profile, Profile):
            yield path.parent, profile
