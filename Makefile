# SPDX-License-Identifier: GPL-2.0-only
#
# The developer commands; CI runs exactly these. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help deps build lint install uninstall test test-unit test-guest test-image test-external demo results peers pages schemas report \
        fuzz-sim bench-app bench-switch bench-cost bench-decision bench-neighbour bench-turns \
        bench-policies bench-sim bench-choice bench-lags bench-paravirt bench-fleet bench-calibration soak fresh clean remove-deps
.DELETE_ON_ERROR:

CARGO ?= cargo
ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=

PROGRAM := target/release/metasched
LIBRARY := target/release/libmetasched_dop.so
BIN = $(DESTDIR)$(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
LIB = $(DESTDIR)$(LIBDIR)
INCLUDE = $(DESTDIR)$(PREFIX)/include
SHARE = $(DESTDIR)$(PREFIX)/share
MAN = $(SHARE)/man/man1
BASH = $(SHARE)/bash-completion/completions
ZSH = $(SHARE)/zsh/site-functions
FISH = $(SHARE)/fish/vendor_completions.d

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'

deps: ## Install what is missing on this machine (said first)
	@scripts/deps.sh

build: deps ## Build everything, tests included, without running anything
	$(CARGO) build --release --workspace --locked
	$(CARGO) test --release --workspace --locked --no-run

# What was built is not built again: root may have no cargo.
install: $(PROGRAM) $(LIBRARY) ## Install the command, its pages, the library for guests: PREFIX=/usr/local DESTDIR=
	install -d $(BIN) $(LIB) $(INCLUDE) $(MAN) $(BASH) $(ZSH) $(FISH)
	install -s -m 755 $(PROGRAM) $(BIN)/metasched
	install -s -m 644 $(LIBRARY) $(LIB)/libmetasched_dop.so
	install -m 755 crates/dop/metasched-dop-open $(BIN)/metasched-dop-open
	install -m 644 include/metasched_paravirt.h $(INCLUDE)/metasched_paravirt.h
	$(PROGRAM) man --out $(MAN) >/dev/null
	$(PROGRAM) completions bash >$(BASH)/metasched
	$(PROGRAM) completions zsh >$(ZSH)/_metasched
	$(PROGRAM) completions fish >$(FISH)/metasched.fish

uninstall: ## Remove what `make install` installed: PREFIX=/usr/local DESTDIR=
	rm -f $(LIB)/libmetasched_dop.so $(BIN)/metasched-dop-open $(INCLUDE)/metasched_paravirt.h
	rm -f $(BIN)/metasched $(MAN)/metasched.1 $(MAN)/metasched-*.1
	rm -f $(BASH)/metasched $(ZSH)/_metasched $(FISH)/metasched.fish

$(PROGRAM) $(LIBRARY):
	$(CARGO) build --release --workspace --locked

lint: deps ## Say what tools find wrong: scripts, dependencies, Rust and its documentation
	@scripts/lint.sh $(ARGS)

test: deps ## Run every test, in the guest too; CI runs this
	@scripts/test.sh unit lint guest

test-unit: deps ## Run the tests that run on this machine as it is (a few boot a guest)
	@scripts/test.sh unit

test-guest: deps ## Run the tests that need a kernel with sched_ext, in the guest
	@scripts/test.sh guest

test-image: deps ## Run the tests of the program and of what controls it on a kernel without modules: ARGS=7.0.13
	@scripts/test-image.sh $(ARGS)

test-external: deps ## Run the kernel's own test of cgroups under EEVDF, fair and lanes: ARGS=3 times each
	@scripts/test-external.sh $(ARGS)

demo: deps ## Measure the real application, choose, run, and show: report/index.html
	@scripts/demo.sh $(ARGS)

results: deps ## Measure what the published tables are of, and pairs: ARGS=pairs BUDGET=40m, goes on
	@scripts/results.sh $(ARGS)

peers: deps ## Build scx_bpfland, scx_rusty, scx_rustland and scx_lavd into the cache
	@scripts/peers.sh $(ARGS)

pages: deps ## Write README.md's table of policies and docs/policies.md from what policies say
	@METASCHED_WRITE_PAGES=1 $(CARGO) test --locked --release -p metasched --test policies_page

schemas: deps ## Write down which keys the documents of --json have: crates/cli/tests/schemas
	@METASCHED_WRITE_PAGES=1 $(CARGO) test --locked --release --workspace --test schemas

report: deps ## Write report/index.html again from what was measured
	@scripts/demo.sh --report-only $(ARGS)

bench-app: deps ## Measure the application under every scheduler and strategy
	@scripts/bench.sh app $(ARGS)

bench-switch: deps ## Measure what changing schedulers takes
	@scripts/bench.sh switch $(ARGS)

bench-cost: deps ## Measure what the lane layer costs
	@scripts/bench.sh cost $(ARGS)

bench-decision: deps ## Measure what a decision of each policy costs, by how many tasks want a CPU
	@scripts/bench.sh decision $(ARGS)

bench-neighbour: deps ## Measure a service beside a neighbour that wants all
	@scripts/bench.sh neighbour $(ARGS)

fuzz-sim: deps ## Run level 1 at random in the simulator, with faults; see crates/sim/README.md
	@nice $(CARGO) run --release --locked -q -p metasched-sim --example fuzz-sim -- $(ARGS)

bench-turns: deps ## Measure what turns cost, by their length
	@scripts/bench.sh turns $(ARGS)

bench-policies: deps ## Measure every policy, its original and EEVDF under the same loads; BUDGET=40m, goes on
	@scripts/bench.sh policies $(ARGS)

bench-sim: deps ## Measure how fast the simulator is, and what memory it takes
	@scripts/bench.sh sim $(ARGS)

bench-choice: deps ## Judge what 'tune' recommends, over random workloads in the simulator
	@scripts/bench.sh choice $(ARGS)

bench-lags: deps ## Simulate and measure functions on a node, by how many there are; BUDGET=40m, goes on; 0: only simulate
	@scripts/bench.sh lags $(ARGS)

bench-paravirt: deps ## Simulate and measure a parallel program whose number of threads follows its host; BUDGET=20m, goes on; 0: only simulate
	@scripts/bench.sh paravirt $(ARGS)

bench-fleet: deps ## Simulate a fleet of such nodes: how many keep the latency?
	@scripts/bench.sh fleet $(ARGS)

bench-calibration: deps ## Compare the simulator with the kernel that it models
	@scripts/bench.sh calibration $(ARGS)

soak: deps ## Change lanes at random under load for ten minutes, in the guest
	@scripts/soak.sh $(ARGS)

fresh: ## Run the demo and every test in a new root from debootstrap: ARGS='--only install'
	@scripts/fresh.sh $(ARGS)

clean: ## Remove what was built and measured in this folder
	$(CARGO) clean
	rm -rf report .cache

remove-deps: ## Remove package sources, pins, caches and state (PURGE=1: packages too)
	@scripts/remove-deps.sh $(if $(YES),--yes)
