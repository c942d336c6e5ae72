# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the other scripts of this folder.

# shellcheck disable=SC1091
. ../common/common.sh

# One thread in each numeric call: the requests are what is to be scheduled.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# use_packages: the staged packages of Python, and modules that workloads share.
use_packages() {
    need METASCHED_RUN
    local root=$METASCHED_RUN/root
    [ -d "$root" ] || fail "use the packages" "'$root' is not there" "stage the workload first"
    export PYTHONPATH=$root/lib:../common
}

# need_containers: fails if the parameter containers is no number of them.
need_containers() {
    need_count containers
    ((METASCHED_PARAM_CONTAINERS <= 4096)) ||
        fail "use containers=$METASCHED_PARAM_CONTAINERS" "4096 are the most" \
            "give another with --set containers=NUMBER"
}
