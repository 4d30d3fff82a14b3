#!/bin/sh
# Goldens of the planner through cs.lab; the types for editors are what the program prints.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
console=$CORNSTARCH_BIN/cornstarch-console
[ "$("$console" lua "$here/lab.lua")" = ok ]
[ "$("$console" lua -e 'local cs=require"cornstarch" print(cs.lab.split{costs={1,2,3,4,5,6,7,8,9},stages=3}.bottleneck)')" = 17 ]
"$console" lua --meta | diff -u "$here/../../lua/meta/cornstarch.lua" - || {
  echo "lua/meta is out of date: cornstarch-console lua --meta > lua/meta/cornstarch.lua"
  exit 1
}
