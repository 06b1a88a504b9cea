#!/usr/bin/env bash
# The one runner of all checks: tests/check.sh checks|tests|all|everything [pytest arguments].
#
#   checks      format, lint, types, import rules
#   tests       the tests that need nothing from outside this repository
#   all         both, and the tests against real servers and clients, which are fetched first
#   everything  these, and those marked so: installs, a container, fleets, load, all legs of the conformance suite
#
# Tests run beside each other, more at a time than there are processors, since they often wait for other processes
# (HUBD_WORKERS says how many); but for those marked `alone`, which come last.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=.venv/bin
export PYTHONDONTWRITEBYTECODE= # tests start many hundred processes: what one has compiled the next need not

step() {
    echo "--- $*"
    "$@"
}

checks() {
    local types failed=0
    step "$bin/mypy" &
    types=$!
    step "$bin/ruff" format --check --quiet . || failed=1
    step "$bin/ruff" check --quiet . || failed=1
    step "$bin/lint-imports" --no-cache || failed=1
    wait "$types" || failed=1
    return "$failed"
}

compile_tests() { # else each worker of the first run would
    compgen -G "tests/__pycache__/test_readme.*-pytest-*.pyc" >/dev/null || "$bin/pytest" --collect-only -qq >/dev/null
}

with_checks() { # the tests, with checks beside them, which take one processor half a minute; first whatever they need
    local log=.build/checks.log checking compiling failed=0
    mkdir -p .build
    { checks >"$log" 2>&1 || { cat "$log"; false; }; } &
    checking=$!
    compile_tests &
    compiling=$!
    make --no-print-directory deps
    wait "$compiling"
    tests "$@" || failed=1
    wait "$checking" && cat "$log" || failed=1
    return "$failed"
}

tests() { # a marker expression, pytest arguments
    local workers=${HUBD_WORKERS:-$(($(nproc) < 3 ? $(nproc) + 3 : 5))}
    step "$bin/pytest" -n "$workers" --dist loadgroup --no-loadscope-reorder -m "$1 and not alone" "${@:2}"
    step "$bin/pytest" -m "$1 and alone" $(grep -rl --include="test_*.py" "mark\.alone" tests) "${@:2}"
}

case ${1:-} in
    checks) checks ;;
    tests)
        export HUBD_WITHOUT_EVERYTHING=1
        compile_tests
        tests "not real and not everything" "${@:2}"
        ;;
    all)
        export HUBD_REQUIRE_REAL=1 HUBD_WITHOUT_EVERYTHING=1
        with_checks "not everything" --durations=10 "${@:2}"
        ;;
    everything)
        export HUBD_REQUIRE_REAL=1 HUBD_DURATIONS=${HUBD_DURATIONS:-compare} HUBD_HYPOTHESIS=${HUBD_HYPOTHESIS:-more}
        with_checks "(everything or not everything)" --durations=10 "${@:2}"
        ;;
    *)
        echo "check.sh: unknown mode '${1:-}': say checks, tests, all or everything" >&2
        exit 2
        ;;
esac
