#!/usr/bin/env bash
# The one runner of all checks: tests/check.sh [tests|fast|all] [pytest arguments].
#
#   tests  the tests that need nothing from outside this repository
#   fast   lint, types, import arrows, and these tests
#   all    the same, and the tests against real servers and clients (`make deps` first)
#
# Tests run beside each other, but for those marked `alone`, which come last.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
shift || true
bin=.venv/bin

step() {
    echo "--- $*"
    "$@"
}

checks() {
    step "$bin/ruff" format --check --quiet .
    step "$bin/ruff" check --quiet .
    step "$bin/mypy"
    step "$bin/lint-imports" --no-cache
}

tests() { # a marker expression, pytest arguments
    step "$bin/pytest" -n auto --maxprocesses 4 --dist loadgroup -m "$1 and not alone" "${@:2}"
    step "$bin/pytest" -m "$1 and alone" "${@:2}"
}

case $mode in
    tests) tests "not real" "$@" ;;
    fast)
        checks
        tests "not real" "$@"
        ;;
    all)
        checks
        HUBD_REQUIRE_REAL=1 tests "(real or not real)" --durations=10 "$@"
        ;;
    *)
        echo "check.sh: unknown mode '$mode': say tests, fast or all" >&2
        exit 2
        ;;
esac
