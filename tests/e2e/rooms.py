"""Which files and which rooms (folders) need each other in a loop: rooms.py BUILD_DIR

A source file needs another when its object names a function or table that the other's object
defines; a header needs what it includes. Prints every loop of files and of rooms. It fails when a
loop of files runs through two rooms, when one inside a room is not called one thought by a comment
in one of its files that names the others,

    /* One thought with b.c, c.c: why. */

and when rooms need each other in a loop: each is a library, and the linker must find an order."""
import collections
import os
import re
import subprocess
import sys

FOLDERS = ("daemon", "console", "lua", "kernels/cpu", "kernels/comm")


def files(root):
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(place, name), root)


def calls(build, root):
    """(file, file it needs, name) by the symbols of the objects of a build"""
    newest = {}  # a build directory keeps the objects of libraries that are no more
    for place, _, names in os.walk(os.path.join(build, "CMakeFiles")):
        for name in names:
            path = os.path.join(place, name)
            source = re.sub(r"^.*?\.dir/", "", os.path.relpath(path, build))[:-2]
            if name.endswith(".c.o") and os.path.exists(os.path.join(root, source)):
                if os.path.getmtime(path) > newest.get(source, (0, ""))[0]:
                    newest[source] = (os.path.getmtime(path), path)
    of_object = {path: source for source, (_, path) in newest.items()}
    defined, needed = {}, []
    listing = subprocess.run(["nm", "-A", "-g"] + sorted(of_object), capture_output=True,
                             text=True, check=True).stdout
    for line in listing.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind == "U":
            needed.append((of_object[path], name))
        elif name != "main":
            defined[name] = of_object[path]
    for source, name in needed:
        if name in defined and defined[name] != source:
            yield source, defined[name], name


def includes(root):
    """(file, header it includes) of the project's own headers"""
    known = set(files(root))
    for path in sorted(known):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for name in re.findall(r'^#include "([^"]+)"', file.read(), re.M):
                for there in ("daemon/" + name, name):
                    if there in known:
                        yield path, there


def arrows(root, build):
    """of files, and of rooms"""
    of_files, of_rooms = collections.defaultdict(dict), collections.defaultdict(dict)

    def add(path, there, why):
        here, to = os.path.dirname(path), os.path.dirname(there)
        if here != to:
            of_rooms[here].setdefault(to, "%s: %s" % (os.path.basename(path), why))

    for path, there, name in calls(build, root):
        of_files[path][there] = name
        add(path, there, name)
    for path, there in includes(root):
        if path.endswith(".h"):
            of_files[path][there] = "includes it"
        add(path, there, there)
    return of_files, of_rooms


def loops(edges):
    """strongly connected sets of two units or more (Tarjan, without recursion)"""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    nodes = sorted(set(edges) | {b for to in edges.values() for b in to})
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for there in rest:
                if there not in index:
                    index[there] = low[there] = len(index)
                    stack.append(there)
                    on_stack.add(there)
                    work.append((there, iter(sorted(edges.get(there, ())))))
                    break
                if there in on_stack:
                    low[node] = min(low[node], index[there])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.append(member)
                        if member == node:
                            break
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def is_one_thought(root, members):
    for path in members:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for names in re.findall(r"One thought with ([^:]+):", file.read()):
                named = set(re.findall(r"\w+\.[ch]\b", names))
                if {os.path.basename(m) for m in members if m != path} <= named:
                    return True
    return False


def show(word, members, edges):
    print("%s: %s" % (word, ", ".join(members)))
    for path in members:
        for there, why in sorted(edges[path].items()):
            if there in members:
                print("    %s -> %s (%s)" % (path, there, why))


def main():
    root = os.getcwd()
    of_files, of_rooms = arrows(root, os.path.abspath(sys.argv[1]))
    bad = 0
    for members in loops(of_files):
        if len({os.path.dirname(m) for m in members}) == 1 and is_one_thought(root, members):
            print("one thought: " + ", ".join(members))
            continue
        bad += 1
        show("loop of files", members, of_files)
    for members in loops(of_rooms):
        bad += 1
        show("loop of rooms", members, of_rooms)
    print("%d files, %d rooms, %d loops" % (len(of_files), len(of_rooms), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
