/* Device classes, and the cluster that a plan request names.
 *
 * Peaks are dense bf16 with fp32 accumulation as the vendors state them; the CPU row is one core of
 * a common server, there only to weigh layers against each other. */
#include "core/plan/cluster.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)

/* Measured on an H200, launched ahead: what forward and input half of the shortest slots take, of a look-up 3 us, of the
 * halves of a block of SigLIP-so400m and of Llama-3.2-1B 6 to 7. Launching is the host's: other classes have the same. */
enum { OPERATOR_NS = 5000 };

static const struct cs_device_class classes[] = {
  /* name, FLOP/s, memory B/s, link B/s, link latency ns, memory, network B/s, latency ns, operator ns, units, links */
    {"cpu",       50000000000,     10000000000,   2000000000,   20000, 0,         1250000000,  50000, 0, 0,   NULL},
    {"a40-48g",   149700000000000, 696000000000,  28000000000,  10000, 48 * GIB,  6250000000,  20000,
     OPERATOR_NS,                                                                                        84,  NULL},
    {"a100-80g",  312000000000000, 2039000000000, 250000000000, 8000,  80 * GIB,  25000000000, 15000,
     OPERATOR_NS,                                                                                        108, NULL},
    {"h100-80g",  989000000000000, 3350000000000, 400000000000, 8000,  80 * GIB,  50000000000, 12000,
     OPERATOR_NS,                                                                                        132, NULL},
    {"h200-141g", 989000000000000, 4800000000000, 400000000000, 8000,  141 * GIB, 50000000000, 12000,
     OPERATOR_NS,                                                                                        132, NULL},
};

/* nodes that are sold as they are */
static const struct preset {
    const char *name, *device;
    int32_t devices_per_node;
} presets[] = {
    {"a40x4",  "a40-48g",   4},
    {"a100x8", "a100-80g",  8},
    {"h100x8", "h100-80g",  8},
    {"h200x8", "h200-141g", 8},
};

const char *const cs_link_op_names[CS_LINK_OPS] = {
    [CS_LINK_SEND] = "send",
    [CS_LINK_ALL_GATHER] = "all-gather",
    [CS_LINK_REDUCE_SCATTER] = "reduce-scatter",
    [CS_LINK_ALL_REDUCE] = "all-reduce",
    [CS_LINK_ALL_TO_ALL] = "all-to-all",
    [CS_LINK_SHIFT] = "shift",
};

struct cs_link_curve cs_channel_of(const struct cs_device_class *device)
{
    const int64_t most = CS_CHANNEL_UNITS * INT64_C(34000000000), link = device->link_bytes_per_s;
    const struct cs_link_curves *links = device->measured;
    const double times = links != NULL ? links->beside[CS_LINK_SEND][0].times : 0;
    if (links != NULL && links->curve[CS_LINK_SEND][0].bytes_per_s > 0) {
        const struct cs_link_curve *alone = &links->curve[CS_LINK_SEND][0];
        const double rate = (double)alone->bytes_per_s / (times > 0 ? times : 1);
        return (struct cs_link_curve){.latency_ns = alone->latency_ns,
                                      .bytes_per_s = (int64_t)rate};
    }
    return (struct cs_link_curve){.latency_ns = device->link_latency_ns,
                                  .bytes_per_s = device->units > 0 && link > most ? most : link};
}

const struct cs_device_class *cs_device_class_find(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(classes); i++)
        if (name && strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

static void class_names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(classes) && used < size; i++) {
        int n = snprintf(text + used, size - used, "%s%s", i ? ", " : "", classes[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Whether text holds the word: "A40" is in "NVIDIA A40", not in "RTX A4000" or "GH200". */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

/* Of 80 GiB on the label a card may show a little less. */
static bool has_memory(const struct cs_device_class *class, int64_t mem_bytes)
{
    return mem_bytes <= 0 || mem_bytes >= class->mem_bytes / 100 * 92;
}

const struct cs_device_class *cs_device_class_of_gpu(const char *name, int64_t mem_bytes,
                                                     char *note, size_t cap)
{
    static const struct {
        const char *word, *class;
    } named[] = {
        {"H200", "h200-141g"},
        {"H100", "h100-80g" },
        {"A100", "a100-80g" },
        {"A40",  "a40-48g"  },
    };

    const struct cs_device_class *best = NULL;
    note[0] = '\0';
    for (size_t i = 0; i < CS_ARRAY_LEN(named); i++) {
        const struct cs_device_class *class = cs_device_class_find(named[i].class);
        if (has_word(name, named[i].word) && has_memory(class, mem_bytes))
            return class;
    }
    for (size_t i = 1; i < CS_ARRAY_LEN(classes); i++)
        if (mem_bytes > 0 && has_memory(&classes[i], mem_bytes) &&
            (!best || classes[i].mem_bytes > best->mem_bytes))
            best = &classes[i];
    best = best ? best : &classes[1];
    snprintf(note, cap, "%s has no figures of its own and is planned as %s%s", name, best->name,
             has_memory(best, mem_bytes) ? "" : ", which has more memory");
    return best;
}

enum cs_status cs_here_read(const char *text, struct cs_here *out, struct cs_err *err)
{
    char name[64];
    char *end = NULL;
    const char *colon = strrchr(text, ':');
    long n = colon ? strtol(colon + 1, &end, 10) : 0;
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : 0, text);
    *out = (struct cs_here){.device = cs_device_class_find(name)};
    if (!out->device || end == colon + 1 || *end || n < 1 || n > 1024) {
        char names[256];
        class_names(names, sizeof names);
        return cs_fail(err, CS_INVALID,
                       "devices are CLASS:NUMBER such as cpu:8 or h100-80g:4, not \"%.100s\"; "
                       "classes: %s",
                       text, names);
    }
    out->devices = (int32_t)n;
    return CS_OK;
}

void cs_here_print(const struct cs_here *here, char *out, size_t cap)
{
    out[0] = '\0';
    if (here->device || here->devices > 0)
        snprintf(out, cap, "%s:%d", here->device ? here->device->name : "cpu",
                 here->devices > 0 ? (int)here->devices : 8);
}

static enum cs_status read_count(const json_t *json, const char *key, int32_t *out,
                                 struct cs_err *err)
{
    const json_t *value = json_object_get(json, key);
    if (!value)
        return CS_OK;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > 100000)
        return cs_fail(err, CS_INVALID, "cluster.%s must be an integer from 1 to 100000", key);
    *out = (int32_t)n;
    return CS_OK;
}

static enum cs_status take_preset(const json_t *name, struct cs_cluster *out, struct cs_err *err)
{
    char names[128] = "";
    const char *given = json_string_value(name);
    for (size_t i = 0; i < CS_ARRAY_LEN(presets); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", presets[i].name);
        if (!given || strcmp(presets[i].name, given) != 0)
            continue;
        out->device = cs_device_class_find(presets[i].device);
        out->devices_per_node = presets[i].devices_per_node;
        return CS_OK;
    }
    return cs_fail(err, CS_INVALID, "cluster preset \"%s\" is not known; accepted: %s",
                   given ? given : "(not a string)", names);
}

static enum cs_status check_keys(const json_t *json, struct cs_err *err)
{
    static const char *const keys[] = {"nodes", "devices_per_node", "device", "preset"};
    size_t known = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        known += json_object_get(json, keys[i]) != NULL;
    if (known != json_object_size(json))
        return cs_fail(err, CS_INVALID,
                       "cluster has an unknown key; accepted: nodes, devices_per_node, device, "
                       "preset");
    return CS_OK;
}

enum cs_status cs_cluster_read(const json_t *json, int here_devices, struct cs_cluster *out,
                               struct cs_err *err)
{
    const struct cs_here here = {.devices = here_devices};
    return cs_cluster_read_here(json, &here, out, err);
}

enum cs_status cs_cluster_read_here(const json_t *json, const struct cs_here *here,
                                    struct cs_cluster *out, struct cs_err *err)
{
    *out = (struct cs_cluster){.device = &classes[0], .n_nodes = 1, .devices_per_node = 8};
    if (json_is_string(json) && strcmp(json_string_value(json), "here") == 0) {
        if (here && here->device)
            out->device = here->device;
        if (here && here->devices > 0)
            out->devices_per_node = here->devices;
        return CS_OK;
    }
    if (json_is_string(json))
        return take_preset(json, out, err);
    if (!json_is_object(json))
        return cs_fail(err, CS_INVALID,
                       "cluster must be \"here\" or an object such as {\"nodes\": 1, "
                       "\"devices_per_node\": 8, \"device\": \"cpu\"}");
    CS_TRY(check_keys(json, err));
    if (json_object_get(json, "preset")) {
        if (json_object_get(json, "device") || json_object_get(json, "devices_per_node"))
            return cs_fail(err, CS_INVALID,
                           "cluster.preset says device and devices_per_node; give only nodes");
        CS_TRY(take_preset(json_object_get(json, "preset"), out, err));
    }
    CS_TRY(read_count(json, "nodes", &out->n_nodes, err));
    CS_TRY(read_count(json, "devices_per_node", &out->devices_per_node, err));
    const json_t *device = json_object_get(json, "device");
    if (!device)
        return CS_OK;
    out->device = cs_device_class_find(json_string_value(device));
    if (!out->device) {
        char names[256];
        class_names(names, sizeof names);
        const char *given = json_string_value(device);
        return cs_fail(err, CS_INVALID, "cluster.device \"%s\" is not known; accepted: %s",
                       given ? given : "(not a string)", names);
    }
    return CS_OK;
}
