# Sourced by the oracle tests: oracle_venv NAME PACKAGE... makes (or reuses) the Python environment NAME
# beside the build (each test its own, they may run at the same time), sets $venv, and $scratch to a folder
# that goes away at the end. Exits 77 where pip cannot install.
oracle_venv() {
    : "${CORNSTARCH_BIN:?set CORNSTARCH_BIN to the folder of the programs}"
    venv=$(dirname "$CORNSTARCH_BIN")/oracle-$1
    shift
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT INT TERM
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        python3 -m venv --clear "$venv" >"$scratch/log" 2>&1 || {
            cat "$scratch/log"
            echo "skipped: no Python environment can be made"
            exit 77
        }
    fi
    "$venv/bin/python" -m pip install -q "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        echo "skipped: pip cannot install $*"
        exit 77
    }
}
