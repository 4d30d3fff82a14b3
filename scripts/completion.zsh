#compdef cornstarch-console
# made by cornstarch-console help --completion zsh
_cornstarch_console() {
  local word help files=
  local -a found
  while IFS=$'\t' read -r word help; do
    case $word in
    :*) files=$word ;;
    *) found+=("${word//:/\\:}:$help") ;;
    esac
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( $#found )) && _describe -V cornstarch-console found
  case $files in
  :dirs) _path_files -/ ;;
  ':files lua') _path_files -g '*.lua' ;;
  :files) _files ;;
  esac
}
if [ "$funcstack[1]" = _cornstarch_console ]; then _cornstarch_console "$@"
else compdef _cornstarch_console cornstarch-console; fi
