# cornstarch-console, for fish: made by cornstarch-console help --completion fish
function __cornstarch_console
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] "$cur" 2>/dev/null)
        switch $line
            case :dirs
                __fish_complete_directories $cur
            case ':files*'
                __fish_complete_path $cur
            case '*'
                echo $line
        end
    end
end
complete -c cornstarch-console -f -a '(__cornstarch_console)'
