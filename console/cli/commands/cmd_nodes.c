/* nodes and gpus: the daemon's node, and its GPUs as their driver tells of them. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/str.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/wire/wire.h"

static const char *const keys[] = {"node",      "version",        "devices", "cpu",    "cores",
                                   "mem_bytes", "mem_free_bytes", "here",    "driver", "gpus_note"};

static enum cs_status print_doc(json_t *reply, struct cs_err *err)
{
    json_t *doc = cs_doc_new("cornstarch.node/1");
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        json_t *value = json_object_get(reply, keys[i]);
        json_object_set(doc, keys[i], value ? value : json_null());
    }
    return cs_cmd_print_doc(doc, err);
}

/* --- a table of GPUs -------------------------------------------------------------------------- */

static const struct cs_column columns[] = {
    {"GPU",         5, 0,  0, CS_ALIGN_LEFT },
    {"MODEL",       6, 28, 5, CS_ALIGN_LEFT },
    {"BUSY",        4, 0,  0, CS_ALIGN_RIGHT},
    {"MEMORY",      6, 0,  1, CS_ALIGN_RIGHT},
    {"POWER",       5, 0,  2, CS_ALIGN_RIGHT},
    {"TEMP",        4, 0,  3, CS_ALIGN_RIGHT},
    {"MHZ",         3, 0,  4, CS_ALIGN_RIGHT},
    {"ENERGY",      6, 0,  7, CS_ALIGN_RIGHT},
    {"PCIE",        4, 0,  8, CS_ALIGN_RIGHT},
    {"HELD BY",     7, 0,  1, CS_ALIGN_LEFT },
    {"CLOCKS HELD", 4, 40, 6, CS_ALIGN_LEFT },
};

static bool has(const json_t *device, const char *key, double *value)
{
    const json_t *item = json_object_get(device, key);
    return item && !json_is_null(item) && cs_json_to_num(item, value);
}

static void one(char out[64], const json_t *device, const char *key, double scale, const char *unit)
{
    double v;
    snprintf(out, 64, "-");
    if (has(device, key, &v))
        snprintf(out, 64, "%.0f%s", v * scale, unit);
}

/* "14.2/79.6 GiB"; "?" for a half that is not known */
static void two(char out[64], const json_t *device, const char *key, const char *of, double scale,
                int decimals, const char *unit)
{
    double a = 0, b = 0;
    char left[24] = "?", right[24] = "?";
    bool has_a = has(device, key, &a), has_b = has(device, of, &b);
    if (has_a)
        snprintf(left, sizeof left, "%.*f", decimals, a * scale);
    if (has_b)
        snprintf(right, sizeof right, "%.*f", decimals, b * scale);
    snprintf(out, 64, has_a || has_b ? "%s/%s%s" : "-", left, right, unit);
}

static void link_text(char out[64], const json_t *device)
{
    double gen, width;
    snprintf(out, 64, "-");
    if (has(device, "pcie_gen", &gen) && has(device, "pcie_width", &width))
        snprintf(out, 64, "%.0fx%.0f", gen, width);
}

static void add_gpu(struct cs_table *table, const json_t *device)
{
    char busy[64], memory[64], power[64], temp[64], mhz[64], energy[64], link[64], held[64];
    const char *error = cs_msg_str(device, "error", "");
    one(busy, device, "busy", 100, "%");
    two(memory, device, "mem_used_bytes", "mem_bytes", 1.0 / (1 << 30), 1, " GiB");
    two(power, device, "power_mw", "power_limit_mw", 1e-3, 0, " W");
    one(temp, device, "temp_c", 1, " C");
    one(mhz, device, "sm_mhz", 1, "");
    one(energy, device, "energy_mj", 1e-6, " kJ");
    link_text(link, device);
    snprintf(held, sizeof held, "-");
    if (cs_msg_int(device, "job", 0) > 0)
        snprintf(held, sizeof held, "job %lld rank %lld", (long long)cs_msg_int(device, "job", 0),
                 (long long)cs_msg_int(device, "rank", -1));
    const char *cells[] = {cs_msg_str(device, "name", "?"),
                           cs_msg_str(device, "model", "?"),
                           busy,
                           memory,
                           power,
                           temp,
                           mhz,
                           energy,
                           link,
                           held,
                           error[0] ? error : cs_msg_str(device, "throttle", "-")};
    cs_table_add(table, cells);
}

static void put_processes(struct cs_buf *out, const json_t *devices)
{
    bool has_title = false;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i), *list = cs_msg_arr(device, "processes");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *p = json_array_get(list, k);
            char memory[64];
            if (!has_title)
                cs_buf_addf(out, "\n");
            has_title = true;
            two(memory, p, "mem_bytes", "mem_bytes", 1.0 / (1 << 30), 1, "");
            memory[strcspn(memory, "/")] = '\0';
            cs_buf_addf(out, "process %lld on %s, %s GiB: ", (long long)cs_msg_int(p, "pid", 0),
                        cs_msg_str(device, "name", "?"), memory);
            const char *command = cs_msg_str(p, "command", "not seen from here");
            cs_str_escape(out, command, strlen(command), false);
            cs_buf_addc(out, '\n');
        }
    }
}

static void put_note(struct cs_buf *out, const json_t *reply)
{
    const char *note = cs_msg_str(reply, "gpus_note", "");
    if (!note[0])
        return;
    cs_buf_addf(out, "note     ");
    cs_str_escape(out, note, strlen(note), false);
    cs_buf_addc(out, '\n');
}

static enum cs_status gpus(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL, *request = cs_msg_new("node.show");
    struct cs_buf text = {0};
    cs_msg_set_bool(request, "gpus", true);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    const json_t *devices = cs_msg_arr(reply, "devices");
    enum cs_status status = CS_OK;
    if (cmd->json) {
        status = print_doc(reply, err);
    } else if (json_array_size(devices) == 0) {
        cs_buf_addf(&text, "%s has no GPUs\n", cs_msg_str(reply, "node", "the node"));
        put_note(&text, reply);
    } else {
        struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
        for (size_t i = 0; i < json_array_size(devices); i++)
            add_gpu(table, json_array_get(devices, i));
        cs_table_render(table, cs_cmd_width(), true, &text);
        cs_table_free(table);
        put_processes(&text, devices);
        put_note(&text, reply);
    }
    cs_cmd_print(&text);
    cs_buf_free(&text);
    json_decref(reply);
    return status;
}

/* --- the node --------------------------------------------------------------------------------- */

static enum cs_status nodes(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL, *device;
    struct cs_buf text = {0};
    char all[CS_UNITS_CAP], unused[CS_UNITS_CAP];
    size_t i;
    CS_TRY(cs_cmd_call(cmd, cs_msg_new("node.show"), &reply, err));
    if (cmd->json) {
        enum cs_status status = print_doc(reply, err);
        json_decref(reply);
        return status;
    }
    cs_bytes_print(all, sizeof all, (uint64_t)cs_msg_int(reply, "mem_bytes", 0));
    cs_bytes_print(unused, sizeof unused, (uint64_t)cs_msg_int(reply, "mem_free_bytes", 0));
    cs_buf_addf(&text,
                "node     %s (cornstarchd %s)\ncores    %lld\nmemory   %s, %s free\ndevices ",
                cs_msg_str(reply, "node", ""), cs_msg_str(reply, "version", ""),
                (long long)cs_msg_int(reply, "cores", 0), all, unused);
    json_array_foreach(cs_msg_arr(reply, "devices"), i, device)
        cs_buf_addf(&text, " %s", cs_msg_str(device, "name", "?"));
    cs_buf_addf(&text, "\nhere     %s\n", cs_msg_str(reply, "here", "CPU ranks"));
    if (cs_msg_str(reply, "driver", "")[0])
        cs_buf_addf(&text, "driver   %s\n", cs_msg_str(reply, "driver", ""));
    put_note(&text, reply);
    cs_cmd_print(&text);
    cs_buf_free(&text);
    json_decref(reply);
    return CS_OK;
}

const struct cs_command cs_command_nodes = {
    .name = "nodes",
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "the daemon's node and its devices",
    .run = nodes,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_gpus = {
    .name = "gpus",
    .key = '6',
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "the node's GPUs: load, memory, power, temperature, clocks, who uses them",
    .run = gpus,
    CS_COMMAND_NO_OPTIONS,
};
