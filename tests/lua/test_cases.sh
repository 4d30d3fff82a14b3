#!/bin/bash
# Every row of cases.tsv through `cornstarch-console lua`: exit code and the whole output. "|" in the
# expected column is a new line, a trailing "*" accepts any rest.
set -u
here=$(cd "$(dirname "$0")" && pwd)
console=${CORNSTARCH_BIN:?set it to the folder of the programs}/cornstarch-console
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# a composite whose processor names its placeholder
cp -r "$CORNSTARCH_SOURCE/tests/golden/models/llava-siglip-qwen2" composite
echo '{"processor_class": "LlavaProcessor", "image_token": "<image_pad>"}' >composite/processor_config.json
# a projector as export writes it, without its weights
mkdir projector
echo '{"model_type": "mlp", "n_layers": 2, "activation": "silu", "bias": false, "in_width": 48, "out_width": 48}' >projector/config.json
# projectors as export writes them
mkdir projected projected_norm
echo '{"model_type": "mlp", "n_layers": 2, "activation": "silu", "in_width": 48, "out_width": 48, "feature_layer": -3}' >projected/config.json
echo '{"model_type": "mlp", "n_layers": 2, "activation": "silu", "in_width": 48, "out_width": 48, "final_norm": true}' >projected_norm/config.json
failed=0 rows=0
while IFS= read -r line; do
  case $line in '#'* | '') continue ;; esac
  name=${line%%$'\t'*} rest=${line#*$'\t'}
  want_rc=${rest%%$'\t'*} rest=${rest#*$'\t'}
  args=${rest%%$'\t'*} want=${rest#*$'\t'}
  want=${want//|/$'\n'}
  rows=$((rows + 1))
  got=$(eval "timeout 60 \"\$console\" lua $args" 2>err </dev/null)
  rc=$?
  [ $rc -eq 0 ] || got=$(sed '1s/^cornstarch-console: //' err)
  if [ "${want%\*}" != "$want" ]; then matches() { [[ $got == "${want%\*}"* ]]; }
  else matches() { [ "$got" = "$want" ]; }; fi
  if [ "$rc" != "$want_rc" ] || ! matches; then
    failed=$((failed + 1))
    printf 'FAIL %s\n  want %s: %s\n  got  %s: %s\n' "$name" "$want_rc" "$want" "$rc" "$got"
  fi
done <"$here/cases.tsv"
printf '%s cases, %s failed\n' "$rows" "$failed"
[ "$failed" -eq 0 ] && [ "$rows" -gt 0 ]
