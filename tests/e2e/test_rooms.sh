#!/bin/sh
# No file needs another in a loop, and no room (folder) needs another in one.
set -eu
exec python3 tests/e2e/rooms.py "$CORNSTARCH_BIN/.."
