# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the other scripts of this folder.

# fail ATTEMPT CAUSE REMEDY
fail() {
    echo "cannot $1: $2; $3" >&2
    exit 1
}

need() {
    [ -n "${!1:-}" ] || fail "run '$(basename "$0")'" "$1 is not set" "start it through metasched"
}

# The interpreter that everything is built for and runs with: the system's own, because
# the guest sees the same one.
python=/usr/bin/python3

# -P: modules come from PYTHONPATH only; -S: no look at the system's packages.
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

# No module of Chroma may reach for the network.
export ANONYMIZED_TELEMETRY=False

# One thread in each numeric call. The vectors are short, so that helpers of a BLAS
# would only wait for each other, spinning; and the requests in flight are what is to
# be scheduled.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
