#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Exits with 0 if a server listens on the workload's port.
set -euo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
port_open
