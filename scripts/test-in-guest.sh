#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs in the guest, called by test.sh: those lines of OUT/programs whose numbers are given, each a
# test program with which of its tests; leaves OUT/N.log, OUT/N.times, and OUT/N.status when line N
# has ended. One that leaves a scheduler in force has failed, and the next one does not find it.
set -u
out=$1
shift
# One that hangs must not take the others' time.
readonly PROGRAM_TIMEOUT_S=1200

# Taking a scheduler out takes the kernel a moment.
default_is_in_force() {
	local state
	for _ in 1 2 3 4 5; do
		state=$(cat /sys/kernel/sched_ext/state)
		[ "$state" != disabled ] || return 0
		sleep 1
	done
	return 1
}

# Passes lines on; leaves the seconds that each test took, since one ends when its line does.
timed() { # FILE
	local line last=$EPOCHREALTIME now
	while IFS= read -r line; do
		now=$EPOCHREALTIME
		if [[ $line =~ ^test\ (.*)\ \.\.\.\  ]]; then
			printf '%5d %s\n' $(((${now/[.,]/} - ${last/[.,]/}) / 1000000)) "${BASH_REMATCH[1]}" >>"$1"
		fi
		last=$now
		printf '%s\n' "$line"
	done
}

for n in "$@"; do
	IFS=$'\t' read -r program folder which < <(sed -n "${n}p" "$out/programs")
	echo "$(basename "$folder")/$(basename "$program" | sed 's/-[0-9a-f]*$//') $which"
	cd "$folder" || exit 1
	# Several arguments, or none.
	read -r -a arguments <<<"$which"
	timeout --kill-after=10 "$PROGRAM_TIMEOUT_S" "$program" --ignored --test-threads=1 "${arguments[@]}" \
		</dev/null 2>&1 | tee "$out/$n.log" | timed "$out/$n.times" | grep -v -E '^$|^running '
	status=${PIPESTATUS[0]}
	if ! default_is_in_force; then
		echo "it left '$(cat /sys/kernel/sched_ext/root/ops)' in force" | tee -a "$out/$n.log"
		echo S >/proc/sysrq-trigger
		[ "$status" != 0 ] || status=1
	fi
	echo "$status" >"$out/$n.status"
	# The guest may die in the next program: what is finished stays.
	sync
done
