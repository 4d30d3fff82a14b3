#!/bin/bash
# The screen on a real terminal: what is typed, pasted, clicked and bound to keys.
. "$(dirname "$0")/../support/e2e.sh"
unset NO_COLOR
python3 "$root/tests/e2e/console_keys.py" "$C" || fail "the console on a terminal"
