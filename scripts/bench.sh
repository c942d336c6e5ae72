#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs one of the benches, in the testbed where this machine's kernel has no sched_ext;
# those of the simulator run here.
#
#   scripts/bench.sh app|switch|cost|decision|neighbour|turns|policies|sim|choice|calibration|lags|paravirt|fleet [ARGUMENTS of the bench]
#
# It prints a table, and ends with one line of JSON. What it leaves is in .cache/bench
# (METASCHED_OUT in the bench's environment).
#
# Environment: BENCH_TIMEOUT   time for the guest (default 3600s)
#              BENCH_COUNTED   1: one CPU, and a clock that counts instructions; slow, and what
#                              else the machine does has no part in the figures
#              BENCH_CPUS      how many CPUs that one has (default 1)
#              BUDGET          of policies, lags and paravirt: begin no round after this time (default 40m, 20m
#                              for paravirt); the same command goes on where it was; 0 has lags and paravirt measure nothing
#              GUEST_KERNEL    a kernel version for the guest (default: the newest sound one)
set -eu -o pipefail
cd "$(dirname "$0")/.."

name=${1:-}
case $name in
	app | switch | cost | decision | neighbour | turns | policies | sim | choice | calibration | lags | paravirt | fleet) shift ;;
	*)
		echo "bench: there is no '$name'; there are app, switch, cost, decision, neighbour, turns, policies, sim, choice, calibration, lags, paravirt and fleet" >&2
		exit 2
		;;
esac
export METASCHED_OUT=$PWD/.cache/bench/$name
mkdir -p "$METASCHED_OUT"
budget=40m
cargo build --release --workspace --locked --quiet
# What a bench needs is prepared here: that may use the network, and a guest is slow.
case $name in
	app) target/release/metasched profile qa --prepare-only ;;
	switch)
		scripts/peers.sh
		set -- --metasched "$PWD/target/release/metasched" "$@"
		;;
	cost)
		set -- --scx-simple "$(scripts/kernel-peers.sh scx_simple)/scx_simple" "$@"
		;;
	policies)
		scripts/peers.sh scx_bpfland scx_rusty scx_rustland
		peers=$(scripts/kernel-peers.sh scx_simple scx_central scx_qmap scx_pair scx_userland)
		export METASCHED_ROUNDS=$METASCHED_OUT/rounds${BENCH_COUNTED:+-counted}.jsonl
		set -- --kernel-peers "$peers" --budget "${BUDGET:-40m}" "$@"
		;;
	lags)
		export METASCHED_ROUNDS=$METASCHED_OUT/rounds.jsonl
		if [ "${BUDGET:-}" != 0 ]; then
			scripts/peers.sh scx_lavd || echo "bench: goes on without scx_lavd"
			target/release/metasched profile functions --prepare-only
			target/release/metasched profile serving --prepare-only
		fi
		;;
	paravirt)
		export METASCHED_ROUNDS=$METASCHED_OUT/rounds.jsonl
		budget=20m
		;;
	neighbour)
		# Debian's redis-tools has the server too, under a name by which it checks files. The
		# package redis-server would start one here.
		ln -sf "$(type -P redis-server || type -P redis-check-rdb)" "$METASCHED_OUT/redis-server"
		set -- --redis-server "$METASCHED_OUT/redis-server" "$@"
		;;
esac

# The machine's side of an earlier calibration needs no machine.
kept=
[ "$name" != calibration ] || case " $* " in *" --machine"[\ =]*) kept=1 ;; esac

# On this machine, or in a guest.
measure() {
	if [ -e /sys/kernel/sched_ext/state ]; then
		"target/release/bench-$name" "$@"
		return
	fi
	# In parallel: figures of throughput and latency.
	local machine=(--cpus 2 --thread multi)
	[ "$name" != calibration ] || machine+=(--pin)
	# The program is compiled there, for the machine that it runs on.
	[ "$name" != paravirt ] || machine+=(--env METASCHED_CACHE_ROOT="$METASCHED_OUT/cache")
	[ -z "${BENCH_COUNTED:-}" ] || machine=(--cpus "${BENCH_CPUS:-1}" --thread counted)
	target/release/metasched vm "${machine[@]}" --memory 4G \
		--timeout "${BENCH_TIMEOUT:-3600s}" ${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} \
		--rw "$METASCHED_OUT" --env METASCHED_OUT="$METASCHED_OUT" \
		${METASCHED_ROUNDS:+--env METASCHED_ROUNDS="$METASCHED_ROUNDS"} -- \
		"$PWD/target/release/bench-$name" "$@"
}

# What it prints is kept too: `make report` shows it.
bench() {
	if [ "$name" = fleet ]; then
		target/release/metasched sim fleet benches/lags/fleet.toml --out "$METASCHED_OUT/fleet.json" "$@"
		cat "$METASCHED_OUT/fleet.json"
	elif [ "$name" = lags ] || [ "$name" = paravirt ]; then
		# Its line of JSON is of both beds.
		[ "${BUDGET:-}" = 0 ] || measure --measure --budget "${BUDGET:-$budget}" "$@" >/dev/null || return
		"target/release/bench-$name" "$@"
	elif [ "$name" = sim ] || [ "$name" = choice ] || [ -n "$kept" ]; then
		"target/release/bench-$name" "$@"
	else
		measure "$@"
	fi
}
bench "$@" | tee "$METASCHED_OUT/output.txt"
