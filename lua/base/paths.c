/* Makes paths of scripts absolute. */
#include "lua/base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cs_lua_path_there(const char *given, char out[PATH_MAX])
{
    char folder[PATH_MAX], real[PATH_MAX];
    size_t n = strcspn(given, "*?[");
    if (realpath(given, out))
        return true;
    if (given[n] == '\0' || n >= sizeof folder)
        return false;
    memcpy(folder, given, n);
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = '\0';
    const size_t skip = slash ? strlen(folder) : 0;
    if (!realpath(slash ? folder : ".", real))
        return false;
    return snprintf(out, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, given + skip) <
           PATH_MAX;
}

json_t *cs_lua_path_from_here(lua_State *L, const char *what, const char *dir)
{
    char here[PATH_MAX];
    if (dir[0] == '\0' || dir[0] == '/')
        return json_string(dir);
    if (!getcwd(here, sizeof(here)))
        cs_lua_error(L, "%s: the current directory is gone", what);
    return json_sprintf("%s/%s", here, dir);
}
