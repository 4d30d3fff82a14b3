# Sourced by the oracle tests: oracle_venv PACKAGE... makes (or reuses) a Python environment beside the
# build, sets $venv, and $scratch to a folder that goes away at the end. Exits 77 where pip cannot install.
oracle_venv() {
    : "${CORNSTARCH_BIN:?set CORNSTARCH_BIN to the folder of the programs}"
    venv=$(dirname "$CORNSTARCH_BIN")/oracle-venv
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT INT TERM
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv" >"$scratch/log" 2>&1 || {
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
