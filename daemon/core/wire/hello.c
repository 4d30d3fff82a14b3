/* The first exchange on a connection; rules in wire.h and cornstarch-protocol(7). */
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"

static void add_version(json_t *msg)
{
    cs_msg_set_int(msg, "major", CS_PROTOCOL_MAJOR);
    cs_msg_set_int(msg, "minor", CS_PROTOCOL_MINOR);
}

json_t *cs_hello_new(int64_t id, const char *program, const char *version, const char *role)
{
    json_t *msg = cs_msg_request("hello", id);
    add_version(msg);
    cs_msg_set_str(msg, "program", program);
    cs_msg_set_str(msg, "version", version);
    cs_msg_set(msg, "features", json_array());
    if (role)
        cs_msg_set_str(msg, "role", role);
    return msg;
}

json_t *cs_hello_ok_new(const json_t *hello, const char *version, const char *node, int64_t pid)
{
    int64_t minor = cs_msg_int(hello, "minor", 0);
    json_t *msg = cs_msg_reply(hello);
    add_version(msg);
    if (minor < CS_PROTOCOL_MINOR)
        cs_msg_set_int(msg, "minor", minor);
    cs_msg_set_str(msg, "version", version);
    cs_msg_set_str(msg, "node", node);
    cs_msg_set_int(msg, "pid", pid);
    return msg;
}

static bool is_hello(const char *type)
{
    static const char *const types[] = {"hello", "hello.ok", "runner.hello"};
    for (size_t i = 0; i < CS_ARRAY_LEN(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

enum cs_status cs_hello_check(const json_t *msg, struct cs_peer *peer, struct cs_err *err)
{
    *peer = (struct cs_peer){0};
    if (!is_hello(cs_msg_type(msg)))
        return cs_fail(err, CS_STATE, "the first message must be hello, not '%.100s'",
                       cs_msg_type(msg));
    /* the major first: another major may have another schema */
    int64_t major = cs_msg_int(msg, "major", -1);
    if (major >= 0 && major != CS_PROTOCOL_MAJOR)
        return cs_fail(err, CS_UNSUPPORTED,
                       "the peer speaks protocol %lld, we speak %d: install the same release",
                       (long long)major, CS_PROTOCOL_MAJOR);
    CS_TRY(cs_msg_check(msg, err));
    int64_t minor = cs_msg_int(msg, "minor", 0);
    peer->major = CS_PROTOCOL_MAJOR;
    peer->minor = minor < CS_PROTOCOL_MINOR ? (int)minor : CS_PROTOCOL_MINOR;
    cs_str_copy(peer->program, sizeof(peer->program), cs_msg_str(msg, "program", ""));
    cs_str_copy(peer->version, sizeof(peer->version), cs_msg_str(msg, "version", ""));
    const char *role = cs_msg_str(msg, "role", NULL);
    if (role) {
        peer->has_role = true;
        if (strcmp(role, "peer") == 0)
            peer->role = CS_ROLE_ADMIN;
        else if (!cs_role_parse(role, &peer->role))
            return cs_fail(err, CS_INVALID, "hello: unknown role '%.100s'", role);
    }
    return CS_OK;
}
