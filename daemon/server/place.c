/* Chooses, claims and keeps the directories of the daemon and its socket. */
#include "server/place.h"

#include <stdlib.h>
#include <string.h>

#include "core/program/dirs.h"

/* Absolute, whatever directory the next daemon is started from. */
static enum cs_status make_absolute(char path[CS_PATH_CAP], struct cs_err *err)
{
    CS_TRY(cs_dir_check_writable(path, err));
    char *real = realpath(path, NULL);
    if (!real)
        return cs_fail_errno(err, "directory %s", path);
    enum cs_status status = cs_path(path, err, "%s", real);
    free(real);
    return status;
}

static enum cs_status choose_runtime(struct cs_server *server, struct cs_err *err)
{
    char why[500] = "", before[CS_PATH_CAP];
    const char *given = server->config.runtime_dir;
    memcpy(before, server->runtime_dir, sizeof before);
    if (given)
        CS_TRY(cs_path(server->runtime_dir, err, "%s", given));
    else
        CS_TRY(cs_dir_runtime_why(server->runtime_dir, why, sizeof why, err));
    CS_TRY(make_absolute(server->runtime_dir, err));
    if (why[0] && strcmp(before, server->runtime_dir) != 0)
        cs_log(server->log, CS_WARN, "daemon.runtime",
               CS_KV("dir", (const char *)server->runtime_dir), CS_KV("why", (const char *)why));
    return cs_path(server->socket_path, err, "%s/daemon.sock", server->runtime_dir);
}

enum cs_status cs_place_choose(struct cs_server *server, struct cs_err *err)
{
    if (server->config.state_dir)
        CS_TRY(cs_path(server->state_dir, err, "%s", server->config.state_dir));
    else
        CS_TRY(cs_dir_state(server->state_dir, err));
    CS_TRY(make_absolute(server->state_dir, err));
    return choose_runtime(server, err);
}

static bool is_one_directory(const struct cs_server *server)
{
    return strcmp(server->state_dir, server->runtime_dir) == 0;
}

static enum cs_status claim_runtime(struct cs_server *server, struct cs_err *err)
{
    return is_one_directory(server)
               ? CS_OK
               : cs_claim_take(&server->runtime_claim, server->runtime_dir, err);
}

enum cs_status cs_place_claim(struct cs_server *server, struct cs_err *err)
{
    CS_TRY(cs_claim_take(&server->state_claim, server->state_dir, err));
    return claim_runtime(server, err);
}

/* Consoles that look elsewhere find us by this. A full disk takes that from them, no more. */
static void say_where(struct cs_server *server)
{
    const struct cs_claim *claims[] = {&server->state_claim, &server->runtime_claim};
    struct cs_err err;
    for (size_t i = 0; i < CS_ARRAY_LEN(claims); i++)
        if (claims[i]->fd != -1 && cs_claim_say(claims[i], server->socket_path, &err) != CS_OK)
            cs_log(server->log, CS_WARN, "daemon.lock", CS_KV("error", (const char *)err.text));
}

enum cs_status cs_place_listen(struct cs_server *server, cs_listener_peer *on_peer,
                               struct cs_err *err)
{
    /* a file at its path is ours: the claim is held */
    CS_TRY(cs_listener_open(server->base, server->socket_path, on_peer, server, &server->listener,
                            err));
    say_where(server);
    return CS_OK;
}

/* --- when somebody removes it ----------------------------------------------------------------- */

static bool is_whole(const struct cs_server *server)
{
    return cs_listener_is_there(server->listener) && cs_claim_is_there(&server->state_claim) &&
           (is_one_directory(server) || cs_claim_is_there(&server->runtime_claim));
}

/* Where we were asked to be, or where a daemon of today would be: a session's directory goes at
 * logout, and what stands at its path then may be anybody's. */
static enum cs_status come_back(struct cs_server *server, struct cs_err *err)
{
    char before[CS_PATH_CAP];
    memcpy(before, server->runtime_dir, sizeof before);
    CS_TRY(cs_mkdirs(server->state_dir, err));
    CS_TRY(cs_claim_keep(&server->state_claim, err));
    CS_TRY(choose_runtime(server, err));
    if (strcmp(before, server->runtime_dir) != 0 || server->runtime_claim.fd == -1) {
        cs_claim_drop(&server->runtime_claim);
        CS_TRY(claim_runtime(server, err));
    } else {
        CS_TRY(cs_claim_keep(&server->runtime_claim, err));
    }
    return cs_listener_move(server->listener, server->socket_path, err);
}

void cs_place_tick(struct cs_server *server)
{
    struct cs_err err;
    cs_listener_tick(server->listener);
    if (is_whole(server))
        return;
    if (come_back(server, &err) == CS_OK) {
        server->is_place_lost = false;
        say_where(server);
        cs_log(server->log, CS_WARN, "daemon.socket",
               CS_KV("path", (const char *)server->socket_path),
               CS_KV("text", "its socket or lock was removed and is there again"));
    } else if (!server->is_place_lost) {
        server->is_place_lost = true;
        cs_log(server->log, CS_ERROR, "daemon.socket", CS_KV("error", (const char *)err.text));
    }
}
