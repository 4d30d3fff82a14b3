#!/bin/sh
# The manual pages, the types for editors and the completions hold what the tables of the programs say;
# the pages that are written by hand name every option; mandoc has nothing to say about any of them;
# pages, folders and scripts that they and the README refer to exist.
set -eu
bin=$(realpath "${CORNSTARCH_BIN:-build/bin}")
cd "${CORNSTARCH_SOURCE:-.}"
bad=0
say() { echo "docs: $*" >&2; bad=1; }

scripts/gen-docs --check "$bin" || bad=1

# options of the runner, whose page is written by hand: each once, and no others
"$bin/cornstarch-runner" --help | grep -oE -- '--[a-z-]+' | grep -vE -- '--(help|version)$' | sort -u >"${TMPDIR:-/tmp}/docs.$$"
sed -n '/^\.Sh DESCRIPTION/,/^\.Sh SIGNALS/p' man/cornstarch-runner.8 | grep '^\.It Fl' | grep -oE -- 'Fl -[a-z-]+' |
    sed 's/^Fl -/--/' | sort | diff "${TMPDIR:-/tmp}/docs.$$" - || say "options of cornstarch-runner (<) and of its page (>) differ"
rm -f "${TMPDIR:-/tmp}/docs.$$"

# every program has its page, every page has what a reader looks for
for program in "$bin"/cornstarch*; do
    set -- man/"$(basename "$program")".[1-8]
    [ -e "$1" ] || say "$(basename "$program") has no manual page"
done
for page in man/*.[1-8]; do
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$page" || say "$page"
    fi
    for section in NAME DESCRIPTION EXAMPLES 'SEE ALSO'; do
        grep -q "^\\.Sh $section\$" "$page" || say "$page has no section $section"
    done
    case $page in
    *.[18])
        for section in SYNOPSIS 'EXIT STATUS'; do
            grep -q "^\\.Sh $section\$" "$page" || say "$page has no section $section"
        done
        ;;
    esac
    for name in $(sed -nE 's/^\.Xr (cornstarch[a-z.-]*) ([1-8]).*/\1.\2/p' "$page"); do
        [ -e "man/$name" ] || say "$page refers to $name, which does not exist"
    done
done

# the README: its map names folders and files that exist, and every top folder is in it
map=$(sed -n '/^## Where things are/,/^## Building/p' README.md | grep -oE '^\| `[^`]+`' | tr -d '|` ')
for path in $map; do
    [ -e "$path" ] || say "README.md names $path, which does not exist"
done
for path in $(ls -d */ | grep -v '^build'); do
    echo "$map" | grep -q "^${path%/}" || say "README.md has no line for $path"
done
# completion: what is typed so far, and what is offered; in the shells that are there
complete() { # WANT WORDS...
    want=$1
    shift
    got=$(bash -c '. scripts/completion.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _cornstarch_console
        echo "${COMPREPLY[*]}"' bash "$bin/cornstarch-console" "$@")
    [ "$got" = "$want" ] || say "completion of '$*' is '$got', not '$want'"
}
if command -v bash >/dev/null; then
    complete "model" mo
    complete "init show check convert" model ""
    complete "shapes" data make ""
    complete "--plain" run --pl
    complete "scripts" inspect scri
    complete "failed" jobs --state fa
fi
if command -v fish >/dev/null; then
    got=$(PATH=$bin:$PATH fish --no-config -c 'source scripts/completion.fish; complete -C "cornstarch-console daemon un"' | cut -f1)
    [ "$got" = undrain ] || say "fish completes 'daemon un' as '$got'"
fi
exit $bad
