/* Turns what a sample calls its file into a path below its folder. */
#include "input/data/place.h"

#include <stdlib.h>
#include <string.h>

enum cs_status cs_place_init(struct cs_place *place, struct cs_arena *arena, const char *root,
                             const char *first, bool follows_links, struct cs_err *err)
{
    char real[CS_PATH_CAP], folder[CS_PATH_CAP];
    const char *slash = strrchr(first, '/');

    if (root[0] == '\0') {
        if (slash == NULL)
            root = ".";
        else if (slash == first)
            root = "/";
        else {
            CS_TRY(cs_path(folder, err, "%.*s", (int)(slash - first), first));
            root = folder;
        }
    }
    if (realpath(root, real) == NULL)
        return cs_fail_errno(err, "folder of the pictures %s", root);
    *place = (struct cs_place){.root = cs_arena_strdup(arena, real),
                               .named_root = cs_arena_strdup(arena, root),
                               .follows_links = follows_links};
    return CS_OK;
}

static bool has_parent_step(const char *file)
{
    for (const char *p = file; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return true;
    }
    return false;
}

static bool is_below(const char *path, const char *root)
{
    size_t n = strlen(root);

    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

enum cs_status cs_place_resolve(const struct cs_place *place, const char *file,
                                char out[CS_PATH_CAP], struct cs_err *err)
{
    const char *root = place->root;
    char joined[CS_PATH_CAP];

    if (has_parent_step(file))
        return cs_fail(err, CS_REFUSED, "%.300s: \"..\" is not followed", file);
    if (file[0] != '/')
        CS_TRY(cs_path(joined, err, "%s/%s", strcmp(root, "/") == 0 ? "" : root, file));
    else
        CS_TRY(cs_path(joined, err, "%s", file));
    if (file[0] == '/' && place->follows_links && !is_below(file, root) &&
        !is_below(file, place->named_root))
        return cs_fail(err, CS_REFUSED,
                       "%.300s: outside of %.300s; images = \"/\" of the data allows it", file,
                       root);
    if (realpath(joined, out) == NULL)
        return cs_fail_errno(err, "missing file %.300s", joined);
    if (!is_below(out, root) && !place->follows_links)
        return cs_fail(err, CS_REFUSED, "%.300s: %s %.300s; %s of the data allows it", file,
                       file[0] == '/' ? "outside of" : "a link out of", root,
                       file[0] == '/' ? "images = \"/\"" : "follow_links = true");
    return CS_OK;
}
