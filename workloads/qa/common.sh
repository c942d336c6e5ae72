# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the other scripts of this folder.

# The interpreter named there is what everything is built for and runs with.
# shellcheck disable=SC1091
. ../common/common.sh

# The options that it gets: -P: modules come from PYTHONPATH only; -S: no look at the system's packages.
export PYTHONUNBUFFERED=1

# No module of Chroma may reach for the network.
export ANONYMIZED_TELEMETRY=False

# One thread in each numeric call. The vectors are short, so that helpers of a BLAS
# would only wait for each other, spinning; and the requests in flight are what is to
# be scheduled.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
