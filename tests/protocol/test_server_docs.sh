#!/bin/sh
# The manual pages hold the tables of the programs, and mandoc has nothing to say about them.
set -eu
bin=${CORNSTARCH_BIN:-build/bin}
"${CORNSTARCH_SOURCE:-.}/scripts/gen-docs" --check "$bin"
cd "${CORNSTARCH_SOURCE:-.}"
command -v mandoc >/dev/null || exit 0
for page in cornstarchd.8 cornstarch.conf.5 cornstarch-protocol.7; do
    mandoc -T lint -W warning "man/$page"
done
