# SPDX-License-Identifier: GPL-2.0-only
"""load.py PROGRAM: runs many functions side by side, each in a cgroup of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import metrics
import repeat
import samples

# Who waits longer gets no answer that counts.
TIMELY_US = 1_000_000
# Starting a function takes some of this, and all begin at the same time.
START_S, START_EACH_S = 0.5, 0.01


def parameter(name: str) -> str:
    """A parameter of the workload."""
    return os.environ["METASCHED_PARAM_" + name.upper().replace("-", "_")]


def own_cgroup() -> Path:
    """The cgroup that this process is in."""
    path = Path("/proc/self/cgroup").read_text().strip().rsplit("::", 1)[-1]
    return Path("/sys/fs/cgroup") / path.lstrip("/")


def pods(number: int) -> list[Path]:
    """Makes a cgroup for each function, as Kubernetes does with systemd: class, pod, container."""
    own = own_cgroup()
    top = own / "kubepods.slice" / "kubepods-burstable.slice"
    try:
        # A cgroup whose children have controllers has no processes itself.
        (own / "load").mkdir(exist_ok=True)
        (own / "load" / "cgroup.procs").write_text(str(os.getpid()))
        containers = []
        for pod in range(number):
            at = top / f"kubepods-burstable-pod{pod}.slice" / f"cri-containerd-{pod}.scope"
            at.mkdir(parents=True, exist_ok=True)
            containers.append(at)
        for folder in [own, own / "kubepods.slice", top, *(at.parent for at in containers)]:
            (folder / "cgroup.subtree_control").write_text("+cpu")
    except OSError as error:
        repeat.stop("make cgroups", str(error), "run it as root, where cgroup v2 is mounted")
    return containers


def start(command: list[str], cgroup: Path) -> subprocess.Popen[str]:
    """Starts a function in its cgroup."""

    def enter() -> None:
        (cgroup / "cgroup.procs").write_text("0")

    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=enter)


def main(program: str) -> None:
    """Runs all functions until the time is over and prints the figures."""
    number, seconds = int(parameter("functions")), repeat.duration_s()
    scale = float(parameter("load"))
    file = parameter("samples")
    known = samples.read(Path(file)) if file != "none" else []
    cgroups = pods(number)
    begin_ns = time.monotonic_ns() + round((START_S + START_EACH_S * number) * 1e9)
    running = []
    for at, cgroup in enumerate(cgroups):
        calls = known[at % len(known)] if known else samples.made_up(at, scale)
        width = parameter("width") if at % int(parameter("parallel-each")) == 0 else "1"
        command = [program, begin_ns, seconds, parameter("sleep-us"), parameter("kib"), width, at]
        running.append(start([*map(str, command), *map(str, calls)], cgroup))
    counts: Counter[int] = Counter()
    failed = []
    # All of them have ended before one's failure is told: none goes on alone.
    for function in running:
        said, _ = function.communicate()
        if function.returncode:
            failed.append(function.returncode)
            continue
        for line in said.splitlines():
            us, calls = map(int, line.split())
            counts[us] += calls
    if failed:
        cause = f"{len(failed)} of {number} ended with status {failed[0]}"
        repeat.stop("run the functions", cause, "see what they said above")
    timely = sum(calls for us, calls in counts.items() if us <= TIMELY_US)
    print(metrics.line(counts, sum(counts.values()) - timely, seconds, requests=timely))


if __name__ == "__main__":
    main(sys.argv[1])
