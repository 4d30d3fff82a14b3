#!/bin/bash
# Keys and sizes that chance chooses, on a real terminal, with jobs, a full queue and a daemon that is killed now
# and then: the console never crashes and never sticks. CORNSTARCH_LONG: 10,000 keys.
. "$(dirname "$0")/../support/e2e.sh"
unset NO_COLOR
export PAGER=cat
make_data
write_job job.lua steps=100000
"$C" submit job.lua >/dev/null
"$C" submit job.lua >/dev/null
if [ -n "${CORNSTARCH_LONG:-}" ]; then
  timeout 1500 python3 "$root/tests/e2e/console_walk.py" "$C" "${WALK_SEED:-1}" 10000 || fail "a long walk"
else
  timeout 240 python3 "$root/tests/e2e/console_walk.py" "$C" "${WALK_SEED:-1}" 600 || fail "a walk"
fi
