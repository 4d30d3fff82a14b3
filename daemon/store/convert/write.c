/* Weights of the result of a conversion: one file, or shards with their index. */
#include <stdio.h>

#include "store/convert/parts.h"

/* Tensors of the next file from `first` on: as many as fit, one at least. */
static int end_of_file(const struct cs_conversion *c, int first)
{
    const uint64_t most = (uint64_t)c->asked->shard_bytes;
    uint64_t bytes = cs_st_out_bytes(&c->out[first]);
    int end = first + 1;
    for (; end < c->n_out; end++) {
        bytes += cs_st_out_bytes(&c->out[end]);
        if (most > 0 && bytes > most)
            break;
    }
    return end;
}

static int count_files(const struct cs_conversion *c)
{
    int n = 0;
    for (int i = 0; i < c->n_out; i = end_of_file(c, i))
        n++;
    return n;
}

static enum cs_status write_index(const struct cs_conversion *c, json_t *map)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, c->err, "%s/model.safetensors.index.json", c->root));
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size",
                              (json_int_t)c->report->bytes, "weight_map", map);
    const enum cs_status status = index ? cs_fs_write_json(path, index, NULL, NULL, c->err)
                                        : cs_fail(c->err, CS_NO_MEMORY, "no memory for the index");
    json_decref(index);
    return status;
}

enum cs_status cs_convert_write(struct cs_conversion *c)
{
    char name[64], path[CS_PATH_CAP];
    json_t *map = json_object();
    const int n = count_files(c);
    enum cs_status status = CS_OK;
    for (int first = 0, file = 1, end; status == CS_OK && first < c->n_out; first = end, file++) {
        end = end_of_file(c, first);
        snprintf(name, sizeof name, n == 1 ? "model.safetensors" : "model-%05d-of-%05d.safetensors",
                 file, n);
        for (int i = first; i < end; i++) {
            c->report->bytes += cs_st_out_bytes(&c->out[i]);
            json_object_set_new(map, c->out[i].name, json_string(name));
        }
        status = cs_path(path, c->err, "%s/%s", c->root, name);
        if (status == CS_OK)
            status = cs_st_write(path, c->out + first, end - first, NULL, NULL, c->err);
    }
    c->report->n_files = n;
    if (status == CS_OK && n > 1)
        status = write_index(c, map);
    json_decref(map);
    return status;
}
