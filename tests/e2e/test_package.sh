#!/bin/bash
# Installed under a prefix, everything lies where its reader looks for it, and the sample job runs from there.
# CORNSTARCH_LONG: the Debian package installs in a bare Debian 12, trains the sample as a user, and purged leaves
# nothing behind. That takes root, debootstrap and a mirror.
. "$(dirname "$0")/../support/e2e.sh"
build=$(dirname "$bin")
command -v cmake >/dev/null || skip 'no cmake'
[ -e "$build/cmake_install.cmake" ] || skip "no build tree at $build"
bin=$work/usr/bin # cleanup ends what was started there
cmake --install "$build" --prefix "$work/usr" >/dev/null
cd "$work/usr"
for file in bin/{cornstarch-console,cornstarchd,cornstarch-runner,cornstarch-worker,cornstarch-feeder} \
  share/bash-completion/completions/cornstarch-console share/zsh/vendor-completions/_cornstarch-console \
  share/fish/vendor_completions.d/cornstarch-console.fish share/cornstarch/lua/meta/cornstarch.lua \
  share/cornstarch/examples/{shapes.lua,shapes-llm.json,shapes-data} share/doc/cornstarch/copyright; do
  [ -e "$file" ] || fail "$file is not installed"
done
for page in "$root"/man/*.[1-8]; do
  [ -e "share/man/man${page##*.}/$(basename "$page")" ] || fail "$(basename "$page") is not installed"
done
grep -q "^ExecStart=$PWD/bin/cornstarchd\$" lib/systemd/user/cornstarchd.service || fail 'the unit starts another daemon'
[ -z "$(grep -rIl "$root/" bin lib share || true)" ] || fail "names of the source tree in $(grep -rIl "$root/" bin lib share)"
cd "$work"
PATH=$work/usr/bin:$PATH usr/share/cornstarch/examples/shapes-data data >/dev/null
usr/bin/cornstarch-console run usr/share/cornstarch/examples/shapes.lua --plain --set dir="$work/data" --set steps=3 >out
grep -q ' DONE' out || fail "$(cat out)"
usr/bin/cornstarch-console daemon stop >/dev/null

[ -n "${CORNSTARCH_LONG:-}" ] || { echo 'ok (no package: CORNSTARCH_LONG)'; exit 0; }
for program in debootstrap dpkg-shlibdeps cpack chroot; do command -v $program >/dev/null || skip "no $program"; done
[ "$(id -u)" = 0 ] || skip 'only root can make a Debian of its own'
(cd "$build" && cpack -B "$work/deb" >"$work/cpack.log") || fail "$(tail -5 "$work/cpack.log")"
deb=$(ls "$work"/deb/cornstarch_*.deb)
debian=${CORNSTARCH_DEBIAN:-$work/debian} # one that debootstrap has made before
[ -e "$debian/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$debian" >"$work/debootstrap.log" ||
  fail "$(tail -3 "$work/debootstrap.log")"
inside() { chroot "$debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
mount -t proc proc "$debian/proc" || skip 'no /proc can be mounted'
trap 'rc=$?; umount "$debian/proc"; (exit $rc); cleanup' EXIT
cp "$deb" "$debian/tmp/cornstarch.deb"
inside apt-get update -qq
needs=$(dpkg-deb -f "$deb" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g')
# shellcheck disable=SC2086 # a list of words on purpose
inside apt-get install -qq -y --no-install-recommends $needs adduser >/dev/null
inside id guest >/dev/null 2>&1 || inside adduser --quiet --disabled-password --gecos '' guest
files() { (cd "$debian" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp -o -path ./var/cache -o -path ./home \) -prune -o -print | sort); }
files >before
inside apt-get install -qq -y --no-install-recommends /tmp/cornstarch.deb >/dev/null
# the plugin for GPUs, where it was built: a machine without a GPU and without CUDA has it and runs on CPU ranks
cuda=$(ls "$work"/deb/cornstarch-cuda_*.deb 2>/dev/null || true)
if [ -n "$cuda" ]; then
  cp "$cuda" "$debian/tmp/cornstarch-cuda.deb"
  inside apt-get install -qq -y --no-install-recommends /tmp/cornstarch-cuda.deb >/dev/null
  [ -e "$debian/usr/lib/libcornstarch-cuda.so" ] || fail 'the plugin is not where workers open it'
  inside su guest -c 'cornstarch-console doctor' >out 2>&1 || fail "doctor: $(cat out)"
fi
sample='cd && /usr/share/cornstarch/examples/shapes-data shapes >/dev/null &&
  cornstarch-console run /usr/share/cornstarch/examples/shapes.lua --plain --set dir=$HOME/shapes --set steps=40; rc=$?
  cornstarch-console daemon stop; exit $rc'
inside su guest -c "$sample" >out 2>&1 || fail "$(cat out)"
grep -q ' DONE' out || fail "$(cat out)"
inside dpkg --purge ${cuda:+cornstarch-cuda} cornstarch >/dev/null
files >after
diff before after >left || fail "left behind: $(cat left)"
[ -z "$(inside dpkg -l cornstarch 2>/dev/null | grep '^[a-z][a-z]' || true)" ] || fail 'dpkg still knows it'
echo ok
