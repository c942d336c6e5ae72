# SPDX-License-Identifier: GPL-2.0-only
# Sourced by loads that use wrk, after common.sh.

# run_wrk THREADS CONNECTIONS SCRIPT URL [OPTION]...: replaces the script by wrk, which prints the
# figures. SCRIPT is wrk.lua or one that includes it.
run_wrk() {
    need METASCHED_DURATION_S
    need_tool wrk timeout
    local seconds
    # wrk takes whole seconds.
    seconds=$(whole_seconds)
    export WRK_CONNECTIONS=$2
    # A response later than the timeout counts as an error: seconds are usual where 20 requests
    # wait for an emulated CPU. The other limit is for a wrk that hangs.
    exec timeout --signal=KILL $((seconds + 30)) \
        wrk --threads "$1" --connections "$2" --duration "${seconds}s" --timeout 10s \
        --script "$3" "${@:5}" "$4"
}
