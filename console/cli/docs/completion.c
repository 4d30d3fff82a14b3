/* Completion scripts: each shell asks the console itself, so that a script is never behind it. */
#include <string.h>

#include "console/cli/docs/command_docs.h"

static const char bash[] =
    "# cornstarch-console, for bash: made by cornstarch-console help --completion bash\n"
    "_cornstarch_console() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} word help IFS=$'\\n'\n"
    "  COMPREPLY=()\n"
    "  while IFS=$'\\t' read -r word help; do\n"
    "    case $word in\n"
    "    :dirs) COMPREPLY+=($(compgen -d -- \"$cur\")) ;;\n"
    "    ':files lua') COMPREPLY+=($(compgen -f -X '!*.lua' -- \"$cur\") $(compgen -d -- "
    "\"$cur\")) ;;\n"
    "    :files) COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
    "    *) COMPREPLY+=(\"$word\") ;;\n"
    "    esac\n"
    "  done < <(\"${COMP_WORDS[0]}\" complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -o filenames -F _cornstarch_console cornstarch-console\n";

static const char zsh[] =
    "#compdef cornstarch-console\n"
    "# made by cornstarch-console help --completion zsh\n"
    "_cornstarch_console() {\n"
    "  local word help files=\n"
    "  local -a found\n"
    "  while IFS=$'\\t' read -r word help; do\n"
    "    case $word in\n"
    "    :*) files=$word ;;\n"
    "    *) found+=(\"${word//:/\\\\:}:$help\") ;;\n"
    "    esac\n"
    "  done < <(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
    "  (( $#found )) && _describe -V cornstarch-console found\n"
    "  case $files in\n"
    "  :dirs) _path_files -/ ;;\n"
    "  ':files lua') _path_files -g '*.lua' ;;\n"
    "  :files) _files ;;\n"
    "  esac\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _cornstarch_console ]; then _cornstarch_console \"$@\"\n"
    "else compdef _cornstarch_console cornstarch-console; fi\n";

static const char fish[] =
    "# cornstarch-console, for fish: made by cornstarch-console help --completion fish\n"
    "function __cornstarch_console\n"
    "    set -l words (commandline -opc)\n"
    "    set -l cur (commandline -ct)\n"
    "    for line in ($words[1] complete -- $words[2..-1] \"$cur\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case :dirs\n"
    "                __fish_complete_directories $cur\n"
    "            case ':files*'\n"
    "                __fish_complete_path $cur\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c cornstarch-console -f -a '(__cornstarch_console)'\n";

bool cs_commands_completion(const char *shell, struct cs_buf *out)
{
    static const struct {
        const char *shell, *script;
    } rows[] = {
        {"bash", bash},
        {"zsh",  zsh },
        {"fish", fish},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].shell, shell) == 0) {
            cs_buf_adds(out, rows[i].script);
            return true;
        }
    return false;
}
