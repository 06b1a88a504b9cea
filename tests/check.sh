#!/usr/bin/env bash
# The one runner of all checks: tests/check.sh [fast|all] [pytest arguments].
#
#   fast   lint, types, import arrows, and the tests that need nothing from outside this repository
#   all    the same, and the tests against real servers and clients (`make deps` first)
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
shift || true
bin=.venv/bin

step() {
    echo "--- $*"
    "$@"
}

step "$bin/ruff" format --check --quiet .
step "$bin/ruff" check --quiet .
step "$bin/mypy"
step "$bin/lint-imports" --no-cache
case $mode in
    fast) step "$bin/pytest" -m "not real" "$@" ;;
    all) HUBD_REQUIRE_REAL=1 step "$bin/pytest" --durations=10 "$@" ;;
    *)
        echo "check.sh: unknown mode '$mode': say fast or all" >&2
        exit 2
        ;;
esac
