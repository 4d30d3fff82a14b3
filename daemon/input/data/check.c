/* Counts what a data set holds and what is wrong with it. */
#include "input/data/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"

/* Paths, figures and what stands in quotes differ from sample to sample; the kind of fault does not. */
static void fold(const char *text, char *out, size_t cap)
{
    size_t n = 0;

    for (const char *p = text; *p != '\0' && n + 1 < cap; p++) {
        bool is_digit = isdigit((unsigned char)*p) != 0;
        if (*p == '"' && strchr(p + 1, '"') != NULL)
            p = strchr(p + 1, '"');
        if (*p == '/') { /* a path: keep that there is one */
            while (p[1] != '\0' && p[1] != ' ' && p[1] != ':' && p[1] != ',')
                p++;
            memcpy(out + n, "...", cap - n > 4 ? 3 : 0);
            n += cap - n > 4 ? 3 : 0;
            continue;
        }
        if (is_digit && n > 0 && out[n - 1] == 'N')
            continue;
        out[n++] = is_digit ? 'N' : *p;
    }
    out[n] = '\0';
}

static void add_reason(struct cs_check *c, uint64_t index, const char *text)
{
    char folded[sizeof(c->reasons[0].kind)];
    struct cs_check_reason *r = NULL;
    int i = 0;

    fold(text, folded, sizeof(folded));
    while (i < c->n_reasons && strcmp(c->reasons[i].kind, folded) != 0)
        i++;
    if (i == CS_CHECK_REASONS)
        i = CS_CHECK_REASONS - 1; /* the last one gathers the rest */
    r = &c->reasons[i];
    if (i == c->n_reasons) {
        c->n_reasons++;
        (void)cs_str_copy(r->kind, sizeof(r->kind), folded);
        (void)cs_str_copy(r->text, sizeof(r->text), text);
    }
    if (strcmp(r->kind, folded) != 0)
        (void)cs_str_copy(r->text, sizeof(r->text), "other reasons");
    r->count++;
    if (r->n_examples < CS_CHECK_EXAMPLES)
        r->example[r->n_examples++] = index;
}

static void add_longest(struct cs_check *c, const struct cs_loaded *l)
{
    int at = c->n_longest;

    while (at > 0 && c->longest[at - 1].tokens < l->sample.n_tokens)
        at--;
    if (at == CS_CHECK_LONGEST)
        return;
    if (c->n_longest < CS_CHECK_LONGEST)
        c->n_longest++;
    memmove(&c->longest[at + 1], &c->longest[at],
            (size_t)(c->n_longest - at - 1) * sizeof(c->longest[0]));
    c->longest[at] = (struct cs_check_long){l->record->index, l->sample.n_tokens, ""};
    (void)cs_str_copy(c->longest[at].id, sizeof(c->longest[at].id), l->record->id);
}

static void add_medium(struct cs_check *c, const struct cs_loaded *l,
                       const struct cs_sample_media *m)
{
    struct cs_check_media *to = &c->media[m->encoder];
    int32_t rows = 0;

    for (int32_t i = 0; i < m->layout.n_items; i++) {
        rows += m->layout.items[i].shape.rows;
        to->n_patches += cs_item_patches(&m->layout.items[i].shape);
    }
    to->n_files++;
    to->n_items += m->layout.n_items;
    to->n_rows += rows;
    if (rows <= to->largest.rows)
        return;
    to->largest.rows = rows;
    to->largest.width = m->medium.width;
    to->largest.height = m->medium.height;
    to->largest.index = l->record->index;
    (void)cs_str_copy(to->largest.name, sizeof(to->largest.name), m->file->name);
}

static void add_good(struct cs_check *c, const struct cs_loaded *l)
{
    int bin = 0;

    while (bin + 1 < CS_CHECK_BINS && l->sample.n_tokens >> (bin + 1) != 0)
        bin++;
    c->n_good++;
    c->n_tokens += l->sample.n_tokens;
    c->n_labels += l->sample.n_labels;
    c->n_saturated += l->n_saturated;
    for (int i = 0; i < l->sample.n_media; i++) {
        c->n_cut += l->sample.media[i].layout.is_cut;
        add_medium(c, l, &l->sample.media[i]);
    }
    c->bins[bin]++;
    add_longest(c, l);
}

static void note_rows(struct cs_check *c, const struct cs_sample *s)
{
    c->n_too_long += s->fault == CS_SAMPLE_TOO_LONG;
    c->n_too_large += s->fault == CS_SAMPLE_TOO_LARGE;
    c->n_untrained += s->fault == CS_SAMPLE_UNTRAINED;
    if (s->rows_wanted == 0)
        return;
    if (c->shortest_rows == 0 || s->rows_wanted < c->shortest_rows)
        c->shortest_rows = s->rows_wanted;
    if (s->rows_wanted > c->longest_rows)
        c->longest_rows = s->rows_wanted;
}

static int by_count(const void *a, const void *b)
{
    const struct cs_check_reason *x = a, *y = b;

    return (x->count < y->count) - (x->count > y->count);
}

enum cs_status cs_data_check(struct cs_source *source, cs_check_each each, void *user,
                             struct cs_check *out, struct cs_err *err)
{
    uint64_t n = cs_source_count(source);

    *out = (struct cs_check){.findings.arena = out->findings.arena};
    for (uint64_t i = 0; i < n; i++) {
        struct cs_loaded loaded = {0};
        struct cs_err why = {0};
        enum cs_status status = cs_source_load(source, i, &out->findings, &loaded, &why);
        out->n_samples++;
        note_rows(out, &loaded.sample);
        if (status == CS_OK) {
            add_good(out, &loaded);
        } else {
            out->n_bad++;
            add_reason(out, i, why.text);
        }
        const bool is_going = status == CS_NO_MEMORY || each == NULL ||
                              each(user, out, &loaded, status == CS_OK ? NULL : why.text);
        cs_loaded_free(&loaded);
        if (status == CS_NO_MEMORY)
            return cs_fail(err, status, "%s", why.text);
        if (!is_going)
            return cs_fail(err, CS_INTERRUPTED, "ended after %llu of %llu samples",
                           (unsigned long long)(i + 1), (unsigned long long)n);
    }
    qsort(out->reasons, (size_t)out->n_reasons, sizeof(out->reasons[0]), by_count);
    return CS_OK;
}
