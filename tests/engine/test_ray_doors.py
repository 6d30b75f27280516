"""A cluster of this machine alone is reachable from this machine alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTENERS = """
import ipaddress, sys
if "imported before" in sys.argv:
    import ray
from tempora_tta.config import RunConfig
from tempora_tta.engine import Observer
from tempora_tta.engine.on_ray import OnRay, driver_job

class Prints(Observer):
    def note(self, text):
        print("note", text)

config = RunConfig(clock="published:rn50_inc", threads=1, device="cpu")
place = OnRay(driver_job(config), None, Prints(), address="local")
place.kind([])
import psutil  # comes with Ray
me = psutil.Process()
for process in (me, *me.children(recursive=True)):
    for found in process.net_connections(kind="inet"):
        if found.status == psutil.CONN_LISTEN:
            address = ipaddress.ip_address(found.laddr.ip)
            print("listens", (getattr(address, "ipv4_mapped", None) or address).is_loopback, process.name())
place.close()
"""


def listeners(*words: str) -> list[str]:
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS, *words], capture_output=True, text=True, timeout=180, check=True
    )
    return [line for line in done.stdout.splitlines() if line.startswith(("listens", "note"))]


@pytest.mark.slow
def test_a_local_cluster_listens_on_loopback_only():
    lines = listeners()
    assert any("gcs_server" in line for line in lines)
    assert any("raylet" in line for line in lines)
    assert [line for line in lines if not line.startswith("listens True")] == []
