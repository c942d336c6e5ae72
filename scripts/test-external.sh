#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Somebody else's test of what we promise about cgroups: the kernel's own
# tools/testing/selftests/cgroup/test_cpu, in the testbed, under EEVDF, under 'fair' for all,
# and with each of the test's cgroups on a lane of its own ('lanes').
#
#   scripts/test-external.sh [ROUNDS]    so many times each, in turn (default 3)
#
# Two guests, each with all three in one boot. One has four CPUs in turn on one of this
# machine's. The other has one CPU whose clock counts instructions: there the tests of cpu.max
# are judged, which grant a process 10 ms in all and look at what it used. In the first the
# emulator takes more than that to start and end it.
#
# It prints how often each test has passed, with the errors that the test tells where it
# failed. The exit status is
#   0  on lanes and under 'fair' each test passed as often as under EEVDF, or EEVDF failed it
#      too, by an error that is no smaller
#   1  one did not, or a guest failed; what each run said is in .cache/test-external
#   2  wrong use
#   4  something is missing
#
# The test is fetched and built by this script, once for each version in the archive; where
# that cannot be had, one that was built before is taken.
#
# Environment: METASCHED_CACHE_ROOT   the cache (default /var/cache/metasched)
#              GUEST_TIMEOUT          time for each guest (default 300s and 420s for each round)
#              GUEST_KERNEL           a kernel version for the guest (default: the newest sound one)
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

readonly CACHE=${METASCHED_CACHE_ROOT:-/var/cache/metasched}/selftests
readonly OUT=$PWD/.cache/test-external
readonly METASCHED=$PWD/target/release/metasched
readonly CPUS=4 # the tests of what is not overcommitted want four

die() { # STATUS MESSAGE
	echo "test-external: $2" >&2
	exit "$1"
}

rounds=${1:-3}
[[ $# -le 1 && $rounds =~ ^[1-9][0-9]*$ ]] || { sed -n '3,32s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for tool in gcc make; do
	command -v "$tool" >/dev/null || die 4 "cannot build the test: there is no $tool; run scripts/deps.sh"
done

# Leaves the test of that version at $CACHE/VERSION/test_cpu.
build_test() { # VERSION
	[ ! -x "$CACHE/$1/test_cpu" ] || return 0
	local work
	mkdir -p "$CACHE" && work=$(mktemp -d "$CACHE/build.XXXXXX") || return 1
	mkdir "$work/out" "$work/result"
	# All of the tests: which headers of others this one wants changes with the version.
	scripts/kernel-source.sh "$work/tree" tools/testing/selftests &&
		make -C "$work/tree/tools/testing/selftests/cgroup" OUTPUT="$work/out" \
			"$work/out/test_cpu" >"$work/log" 2>&1 &&
		cp "$work/out/test_cpu" "$work/result" && mv -T "$work/result" "$CACHE/$1"
	local status=$?
	[ $status = 0 ] || tail -n 5 "$work/log" >&2 2>/dev/null
	rm -rf "$work"
	return $status
}

if ! { version=$(scripts/kernel-source.sh --version) && build_test "$version"; }; then
	version=$(find "$CACHE" -mindepth 1 -maxdepth 1 ! -name 'build.*' -printf '%f\n' 2>/dev/null | sort -V | tail -n 1)
	[ -n "$version" ] || die 1 "cannot fetch and build test_cpu, and there is none from before"
	echo "test-external: taking the one that was built before, of $version" >&2
fi
cargo build --release --package metasched --locked --quiet ||
	die 1 "cannot build metasched; \`cargo build --release\` says why"

{ rm -rf "$OUT" && mkdir -p "$OUT/parts" "$OUT/counted"; } || die 1 "cannot write $OUT"
# Every cgroup of test_cpu.c that has tasks has an application, and with it a lane, of its own,
# and so has each above those.
{
	echo 'default = "fair"'
	for cgroup in cpucg_test 'cpucg_test_?' 'cpucg_test_?/cpucg_test_child' \
		cpucg_test_0/cpucg_child_{0,1,2} \
		cpucg_test/cpucg_leaf_0 cpucg_test/cpucg_child cpucg_test/cpucg_child/cpucg_leaf_{1,2} \
		cpucg_parent cpucg_parent/cpucg_child; do
		printf '\n[[app]]\nname = "%s"\npolicy = "vtime"\ncgroups = ["%s"]\n' \
			"$(tr '/?' '-n' <<<"$cgroup")" "$cgroup"
	done
} >"$OUT/parts/lanes.toml"
cp "$OUT/parts/lanes.toml" "$OUT/counted" || die 1 "cannot write $OUT"

run_guest() { # PLACE CPUS THREAD
	"$METASCHED" vm --cpus "$2" --memory 3G --thread "$3" \
		--timeout "${GUEST_TIMEOUT:-$((300 + rounds * 420))s}" ${GUEST_KERNEL:+--kernel "$GUEST_KERNEL"} \
		--rw "$OUT/$1" -- "$PWD/scripts/test-external-in-guest.sh" "$OUT/$1" \
		"$CACHE/$version/test_cpu" "$rounds" </dev/null | sed -u "s/^/$1: /"
}

# One beside the other: in turn on one of this machine's CPUs each.
set -m
run_guest parts $CPUS single &
guests=($!)
run_guest counted 1 counted &
guests+=($!)
trap 'kill -INT -- "-${guests[0]}" "-${guests[1]}" 2>/dev/null; wait; exit 130' INT TERM
{ wait "${guests[0]}" && wait "${guests[1]}"; } ||
	die 1 "a guest did not come to its end; what each run said is in $OUT"
trap - INT TERM
set +m

echo
echo "test_cpu of Linux $version on $(cat "$OUT/parts/kernel"), $CPUS CPUs, and of max one whose clock"
echo "counts instructions, $rounds times each: how often each test passed, and by how many per cent"
echo "of the sum the values differed where it did not"
echo
awk -v rounds="$rounds" '
	FILENAME != file {
		file = FILENAME
		n_path = split(file, path, "/")
		split(path[n_path], name, ".") # SUBJECT.ROUND.log
		subject = name[1]
		counted = path[n_path - 1] == "counted"
		error = ""
	}
	match($0, /actual_error=[0-9.]+/) { error = substr($0, RSTART + 13, RLENGTH - 13) }
	/^(not )?ok [0-9]+ / {
		test = $1 == "not" ? $4 : $3
		sub(/^test_cpucg_/, "", test)
		if ((test ~ /^max/) != counted) { error = ""; next }
		if (!(test in seen)) { seen[test]; tests[++n] = test }
		key = subject SUBSEP test
		ran[key]++
		if (/# SKIP/) skipped[key]++
		else if ($1 == "ok") passed[key]++
		else {
			failed[key]++
			if (error != "") {
				errors[key] = errors[key] (errors[key] == "" ? "" : ", ") sprintf("%.1f", error)
				if (error + 0 > largest[key] + 0) largest[key] = error + 0
				told[key]++
			}
		}
		error = ""
	}
	function cell(key) {
		if (skipped[key] == ran[key]) return "skipped"
		return passed[key] + 0 " of " rounds (errors[key] == "" ? "" : " (" errors[key] " %)")
	}
	# A run that the test told no error of failed otherwise: that is never as good.
	function worst(key) { return told[key] == failed[key] ? largest[key] + 0 : 1e9 }
	# How often a few runs pass says little about a test that EEVDF fails too; the error says more.
	function is_worse(key, than) {
		return passed[key] + 0 < passed[than] + 0 && (!failed[than] || worst(key) > worst(than)) ||
			!passed[than] && worst(key) > worst(than)
	}
	END {
		print "| test | EEVDF | fair | lanes |"
		print "|---|---|---|---|"
		for (i = 1; i <= n; i++) {
			e = "eevdf" SUBSEP tests[i]; f = "fair" SUBSEP tests[i]; l = "lanes" SUBSEP tests[i]
			print "| " tests[i] " | " cell(e) " | " cell(f) " | " cell(l) " |"
			if (ran[e] != rounds || ran[l] != rounds || ran[f] != rounds) missing = missing " " tests[i]
			if (is_worse(f, e)) worse = worse " " tests[i] " (fair)"
			if (is_worse(l, e)) worse = worse " " tests[i] " (lanes)"
		}
		print ""
		if (!n) print "test-external: no test has run"
		if (missing != "") print "test-external: not every run came to these:" missing
		if (worse != "") print "test-external: worse than under EEVDF:" worse
		if (!n || missing != "" || worse != "") exit 1
		print "test-external: as good as under EEVDF"
	}' "$OUT"/parts/*.log "$OUT"/counted/*.log
