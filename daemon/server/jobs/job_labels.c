/* Tags are kept as one text, a comma between two. */
#include "server/jobs/job_labels.h"

#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/str.h"
#include "core/wire/tag.h"

enum { MOST_TAGS = 32 };

static bool has(const char *tags, const char *tag)
{
    const size_t n = strlen(tag);
    for (const char *at = tags; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && memcmp(at, tag, n) == 0)
            return true;
    return false;
}

static enum cs_status check(const char *tag, struct cs_err *err)
{
    const size_t n = strlen(tag);
    if (n >= 1 && n <= CS_TAG_BYTES && strspn(tag, CS_TAG_LETTERS) == n)
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "'%.100s' is no tag: letters, digits and . _ - = : / @ +, at most %d of them",
                   tag, CS_TAG_BYTES);
}

static bool is_in(const json_t *list, const char *tag)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), tag) == 0)
            return true;
    return false;
}

static void append(struct cs_buf *out, const char *tag)
{
    cs_buf_addf(out, "%s%s", out->len > 0 ? "," : "", tag);
}

/* those that stay, then those that are new */
static enum cs_status merge(const struct cs_job_row *row, const struct cs_labels *labels,
                            struct cs_buf *out, struct cs_err *err)
{
    char tag[CS_TAG_BYTES + 1];
    for (const char *at = row->tags; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(tag, sizeof tag, "%.*s", (int)strcspn(at, ","), at);
        if (!is_in(labels->remove, tag))
            append(out, tag);
    }
    for (size_t i = 0; i < json_array_size(labels->add); i++) {
        const char *word = json_string_value(json_array_get(labels->add, i));
        CS_TRY(check(word, err));
        if (!has(cs_buf_str(out), word))
            append(out, word);
    }
    size_t n = out->len > 0;
    for (size_t i = 0; i < out->len; i++)
        n += out->data[i] == ',';
    if (n > MOST_TAGS || out->len >= sizeof row->tags)
        return cs_fail(err, CS_LIMIT, "a job has at most %d tags of %zu bytes in all", MOST_TAGS,
                       sizeof row->tags - 1);
    return CS_OK;
}

enum cs_status cs_job_label(struct cs_job_row *row, const struct cs_labels *labels,
                            struct cs_err *err)
{
    struct cs_buf tags = {0};
    enum cs_status status = merge(row, labels, &tags, err);
    if (status == CS_OK)
        cs_str_copy(row->tags, sizeof row->tags, cs_buf_str(&tags));
    if (status == CS_OK && labels->note != NULL)
        cs_str_copy(row->note, sizeof row->note, labels->note);
    cs_buf_free(&tags);
    return status;
}

json_t *cs_job_tags(const struct cs_job_row *row)
{
    json_t *out = json_array();
    for (const char *at = row->tags; *at; at += strcspn(at, ","), at += *at == ',')
        json_array_append_new(out, json_stringn(at, strcspn(at, ",")));
    return out;
}

bool cs_job_has_tags(const struct cs_job_row *row, const json_t *tags)
{
    for (size_t i = 0; i < json_array_size(tags); i++)
        if (!has(row->tags, json_string_value(json_array_get(tags, i))))
            return false;
    return true;
}
