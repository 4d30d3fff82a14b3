# cornstarch-console, for bash: made by cornstarch-console help --completion bash
_cornstarch_console() {
  local cur=${COMP_WORDS[COMP_CWORD]} word help IFS=$'\n'
  COMPREPLY=()
  while IFS=$'\t' read -r word help; do
    case $word in
    :dirs) COMPREPLY+=($(compgen -d -- "$cur")) ;;
    ':files lua') COMPREPLY+=($(compgen -f -X '!*.lua' -- "$cur") $(compgen -d -- "$cur")) ;;
    :files) COMPREPLY+=($(compgen -f -- "$cur")) ;;
    *) COMPREPLY+=("$word") ;;
    esac
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o filenames -F _cornstarch_console cornstarch-console
