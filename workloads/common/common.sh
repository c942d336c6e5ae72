# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the scripts of workloads.

# The system's own: a guest sees the same one.
python=/usr/bin/python3
# Nothing is written beside our modules, which may lie on a read-only file system.
export PYTHONDONTWRITEBYTECODE=1

# fail ATTEMPT CAUSE REMEDY: says so and ends the script.
fail() {
    echo "cannot $1: $2; $3" >&2
    exit 1
}

# need VARIABLE...: fails if one is not set.
need() {
    local name
    for name in "$@"; do
        [ -n "${!name:-}" ] || fail "run '$(basename "$0")'" "$name is not set" "start it through metasched"
    done
}

# need_tool PROGRAM...: fails if one is not found.
need_tool() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null ||
            fail "run '$tool'" "there is no such program" "stage the workload, or prepare it anew"
    done
}

# need_count NAME: fails if the parameter NAME is not a whole number from 1 to 9999999.
need_count() {
    local variable=METASCHED_PARAM_${1^^}
    variable=${variable//-/_}
    need "$variable"
    [[ ${!variable} =~ ^[1-9][0-9]{0,6}$ ]] ||
        fail "use $1=${!variable}" "that is not a whole number of at least 1" \
            "give another with --set $1=NUMBER"
}

# need_port: fails if the parameter port is not a port.
need_port() {
    need_count port
    ((METASCHED_PARAM_PORT <= 65535)) ||
        fail "use port=$METASCHED_PARAM_PORT" "the highest port is 65535" \
            "give another with --set port=NUMBER"
}

# whole_seconds: METASCHED_DURATION_S rounded up to whole seconds, at least 1.
whole_seconds() {
    local whole=${METASCHED_DURATION_S%%.*} rest=
    [[ $METASCHED_DURATION_S =~ ^[0-9]*(\.[0-9]+)?$ ]] ||
        fail "run a load" "METASCHED_DURATION_S is '$METASCHED_DURATION_S'" "start it through metasched"
    [[ $METASCHED_DURATION_S != *.* ]] || rest=${METASCHED_DURATION_S#*.}
    whole=$((10#${whole:-0}))
    [[ ! $rest =~ [1-9] ]] || whole=$((whole + 1))
    echo $((whole > 0 ? whole : 1))
}

# listening PORT: whether something listens on it. The kernel's list is read, since a
# connection made to find out would be a request to the server. Not by a loop in bash: after
# a load of short connections the list has some 10000 lines.
listening() {
    local files=(/proc/net/tcp)
    [ ! -r /proc/net/tcp6 ] || files+=(/proc/net/tcp6)
    awk -v port="$(printf ':%04X' "$1")" \
        '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' "${files[@]}"
}

# port_free: fails if something listens on the parameter port already.
port_free() {
    need_port
    ! listening "$METASCHED_PARAM_PORT" ||
        fail "listen on port $METASCHED_PARAM_PORT" "another process listens there" \
            "stop that, or give another with --set port=NUMBER"
}

# port_open: fails if nothing listens on the parameter port.
port_open() {
    need_port
    listening "$METASCHED_PARAM_PORT" ||
        fail "load port $METASCHED_PARAM_PORT" "nothing listens there" "start the workload's server first"
}

# use_root: programs and libraries of the packages that are staged come first.
use_root() {
    use_root_at "$METASCHED_RUN/root"
}

# use_root_at FOLDER: likewise of packages that are unpacked into another folder.
use_root_at() {
    local root=$1 folder
    [ -d "$root" ] || fail "use the packages" "'$root' is not there" "stage the workload first"
    PATH=$root/usr/local/bin:$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin:$PATH
    for folder in "$root"/usr/lib/*-linux-gnu* "$root"/lib/*-linux-gnu*; do
        [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    export PATH LD_LIBRARY_PATH
}

# fresh_folder NAME: makes $METASCHED_RUN/NAME anew, without what a killed run left, and
# prints its path.
fresh_folder() {
    local folder=${METASCHED_RUN:?}/$1
    { rm -rf "$folder" && mkdir -p "$folder"; } ||
        fail "make the folder '$folder'" "see above" "see whether the memory file system is full"
    echo "$folder"
}

# as_nobody COMMAND...: replaces the script by the command, as a user without rights if we
# are root: some servers refuse to run as root.
as_nobody() {
    [ "$(id -u)" = 0 ] || exec "$@"
    exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
}
