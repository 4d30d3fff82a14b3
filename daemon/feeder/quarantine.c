/* Notes bad samples: a bit per sample and an append-only file of lines. */
#include "feeder/quarantine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"

enum { MAX_BYTES = 64 * 1024 * 1024 };

struct cs_quarantine {
    char *path, *set;
    const struct cs_source *source;
    uint8_t *is_bad; /* (n) */
    uint64_t n, count;
};

static void note(struct cs_quarantine *q, const char *line, size_t n)
{
    json_t *json = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
    json_int_t index = json_integer_value(json_object_get(json, "index"));
    const char *set = json_string_value(json_object_get(json, "set"));
    const char *file = json_string_value(json_object_get(json, "file"));

    if (set != NULL && strcmp(set, q->set) == 0 && file != NULL &&
        strcmp(file, cs_source_path(q->source)) == 0 && index >= 0 && (uint64_t)index < q->n &&
        !q->is_bad[index]) {
        q->is_bad[index] = 1;
        q->count++;
    }
    json_decref(json);
}

void cs_quarantine_close(struct cs_quarantine *q)
{
    if (q == NULL)
        return;
    free(q->path);
    free(q->set);
    free(q->is_bad);
    free(q);
}

static struct cs_quarantine *make(const char *path, const char *set, const struct cs_source *source)
{
    struct cs_quarantine *q = calloc(1, sizeof *q);

    if (q == NULL)
        return NULL;
    q->path = strdup(path);
    q->set = strdup(set);
    q->source = source;
    q->n = cs_source_count(source);
    q->is_bad = calloc(q->n + 1, 1);
    if (q->path != NULL && q->set != NULL && q->is_bad != NULL)
        return q;
    cs_quarantine_close(q);
    return NULL;
}

enum cs_status cs_quarantine_open(const char *path, const char *set, const struct cs_source *source,
                                  struct cs_quarantine **out, struct cs_err *err)
{
    struct cs_quarantine *q = make(path, set, source);
    struct cs_buf text = {0};

    *out = q;
    if (q == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to note the bad of %llu samples",
                       (unsigned long long)cs_source_count(source));
    /* absent, unreadable or damaged: samples are listed again, nothing worse */
    if (cs_read_file(path, MAX_BYTES, &text, NULL) == CS_OK)
        for (size_t at = 0; at < text.len;) {
            const char *end = memchr(text.data + at, '\n', text.len - at);
            size_t n = end != NULL ? (size_t)(end - text.data) - at : text.len - at;
            note(q, text.data + at, n);
            at += n + 1;
        }
    cs_buf_free(&text);
    return CS_OK;
}

uint64_t cs_quarantine_count(const struct cs_quarantine *q)
{
    return q->count;
}

static enum cs_status append(const char *path, const char *line, size_t n, struct cs_err *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    enum cs_status status = CS_OK;

    if (fd == -1)
        return cs_fail_errno(err, "cannot open %s", path);
    status = cs_write_all(fd, line, n, err);
    close(fd);
    return status;
}

enum cs_status cs_quarantine_add(struct cs_quarantine *q, const struct cs_load *load, bool *is_new,
                                 struct cs_err *err)
{
    enum cs_status status = CS_OK;
    const char *id = load->loaded.record != NULL ? load->loaded.record->id : "";
    struct cs_buf line = {0};
    json_t *json = NULL;

    *is_new = !q->is_bad[load->index];
    if (!*is_new)
        return CS_OK;
    q->is_bad[load->index] = 1;
    q->count++;
    json = json_object();
    cs_msg_set_str(json, "set", q->set);
    cs_msg_set_str(json, "file", cs_source_path(q->source));
    cs_msg_set_int(json, "index", (int64_t)load->index);
    cs_msg_set_str(json, "id", id);
    cs_msg_set_str(json, "status", cs_status_slug(load->status));
    cs_msg_set_str(json, "reason", load->reason);
    cs_json_canonical(json, &line);
    cs_buf_addc(&line, '\n');
    status = append(q->path, cs_buf_str(&line), line.len, err);
    json_decref(json);
    cs_buf_free(&line);
    return status;
}
