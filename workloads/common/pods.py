# SPDX-License-Identifier: GPL-2.0-only
"""A cgroup for each of many containers, nested as Kubernetes nests them with systemd."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import repeat

# Until the kernel lets go of processes that were killed.
GONE_S = 5.0


def own_cgroup() -> Path:
    """The cgroup that this process is in."""
    path = Path("/proc/self/cgroup").read_text().strip().rsplit("::", 1)[-1]
    return Path("/sys/fs/cgroup") / path.lstrip("/")


def remove(top: Path) -> None:
    """Ends what is left in a cgroup, and removes it with all below it."""
    if not top.exists():
        return
    (top / "cgroup.kill").write_text("1")
    until = time.monotonic() + GONE_S
    for folder, _, _ in os.walk(top, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)


def pin(at: int) -> None:
    """From now on this process, and what it starts, may use one CPU only: all of them are taken in turn."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[at % len(cpus)]})


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Tells of what the kernel refuses in the block."""
    try:
        yield
    except OSError as error:
        repeat.stop("make and remove cgroups", str(error), "run it as root, where cgroup v2 is mounted")


@contextlib.contextmanager
def made(number: int) -> Iterator[list[Path]]:
    """So many cgroups below our own, which are there until the block is left."""
    own = own_cgroup()
    # What has the name below is killed and removed: nowhere but in a cgroup of ours.
    if "metasched" not in own.parts:
        repeat.stop("make cgroups", f"'{own}' is not one of ours", "start it through metasched")
    aside, top = own / "starter", own / "kubepods.slice"
    burstable = top / "kubepods-burstable.slice"
    containers = [
        burstable / f"kubepods-burstable-pod{pod}.slice" / f"cri-containerd-{pod}.scope"
        for pod in range(number)
    ]
    with refused():
        # A run that was killed leaves its own.
        remove(top)
        # Only without controllers below it can a cgroup have processes and children that are no threads.
        (own / "cgroup.subtree_control").write_text("-cpu")
        aside.mkdir(exist_ok=True)
        (aside / "cgroup.procs").write_text("0")
        for container in containers:
            container.mkdir(parents=True)
        for folder in [own, top, burstable, *(container.parent for container in containers)]:
            (folder / "cgroup.subtree_control").write_text("+cpu")
    try:
        yield containers
    except BaseException:
        # No container goes on alone. Empty cgroups are the next run's to remove.
        (top / "cgroup.kill").write_text("1")
        raise
    with refused():
        remove(top)
        (own / "cgroup.subtree_control").write_text("-cpu")
        (own / "cgroup.procs").write_text("0")
        aside.rmdir()
